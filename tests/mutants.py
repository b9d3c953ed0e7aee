"""Changes to single lines of the package, and whether the tests notice them.

    python tests/mutants.py reach --work ~/mutants                        # once
    python tests/mutants.py run --work ~/mutants --seed 7 --count 60      # goes on where it ended
    python tests/mutants.py show --work ~/mutants

``run`` draws lines at random, changes each in one way, and runs the test files that reach it, those
that start no commands first, until one fails or they exceed three times their time; then ``run
--slow`` gives what has survived to the slow tests of the same files. For this ``reach`` has run
each test file alone and has recorded which of the lines it executes, also in the processes that
`launchpad` forks; it takes the same --seed and --count. The tests run in a copy of the checkout
below --work, which must lie outside of the checkout; --tests names another folder of tests for it,
such as an older one. Two processes share the work with ``--share 0/2`` and ``--share 1/2``.
"""

import argparse
import ast
import atexit
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fairseq_rnnsearch"
REACHED = "MUTANTS_REACHED"  # the variable that names the folder to write to
SLOW_LIMIT = 3600  # seconds that slow tests may take
WANTED = "wanted.json"  # the drawn lines by file
MARGIN = 60  # seconds that test files may take beyond three times their own


# --- which lines are reached ------------------------------------------------------------------


def trace() -> None:
    """Record in this process and its forks which of the drawn lines are executed.

    What a process has reached is written when its exit functions run.
    """
    if REACHED not in os.environ:
        return
    folder, seen, traced = Path(os.environ[REACHED]), set(), {}
    wanted = json.loads((folder.parent / WANTED).read_text())
    wanted = {str(PACKAGE / name): set(lines) for name, lines in wanted.items()}

    def in_function(frame: FrameType, event: str, argument: object) -> object:
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return in_function

    def enter(frame: FrameType, event: str, argument: object) -> object:
        """Trace a function that holds a drawn line; to trace every one would take minutes."""
        code = frame.f_code
        if code.co_filename not in wanted:
            return None
        key = code.co_filename, code.co_qualname, code.co_firstlineno
        if key not in traced:
            lines = {line for *_, line in code.co_lines()}
            traced[key] = not lines.isdisjoint(wanted[code.co_filename])
        return in_function if traced[key] else None

    def write() -> None:
        sys.settrace(None)
        lines = sorted((Path(name).relative_to(PACKAGE).as_posix(), line) for name, line in seen)
        (folder / f"{os.getpid()}.json").write_text(json.dumps(lines))

    atexit.register(write)
    threading.settrace(enter)
    sys.settrace(enter)


def reach(drawn: list["Mutant"], tree: Path, work: Path, part: int, parts: int) -> None:
    """Write for each test file of a share its seconds and the drawn lines that it reaches.

    Python imports a module named sitecustomize when it starts; there each process begins to trace.
    """
    begin = f"import sys\nsys.path.append({str(tree / 'tests')!r})\nimport mutants\n"
    (tree / "sitecustomize.py").write_text(f"{begin}mutants.trace()\n")
    wanted = defaultdict(list)
    for mutant in drawn:
        wanted[mutant.file].append(mutant.line)
    (work / "traces").mkdir(exist_ok=True)
    (work / "traces" / WANTED).write_text(json.dumps(wanted))
    for file in sorted((tree / "tests").glob("test_*.py"))[part::parts]:
        result = work / "reach" / f"{file.stem}.json"
        if result.exists():
            continue
        folder = work / "traces" / file.stem
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        began = time.monotonic()
        tracing = {REACHED: str(folder), "LAUNCHPAD_LIMIT": "1200"}
        failed = pytest(tree, [file.stem], "not slow", None, **tracing)
        seconds = time.monotonic() - began
        if failed:
            print(f"{file.name} fails without any change", flush=True)
            continue
        found: dict[str, set[int]] = defaultdict(set)
        for process in folder.glob("*.json"):
            for name, line in json.loads(process.read_text()):
                found[name].add(line)
        lines = {name: sorted(numbers) for name, numbers in sorted(found.items())}
        result.parent.mkdir(exist_ok=True)
        result.write_text(json.dumps({"seconds": seconds, "lines": lines}))
        print(f"{file.name}: {seconds:.0f} s", flush=True)


def pytest(
    tree: Path, names: list[str], mark: str, limit: float | None, **environment: str
) -> str | None:
    """Run the tests of some files that a mark chooses, until the first failure.

    Returns:
        The file that fails, "time" if they took too long, or None.
    """
    command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider -m".split()
    # no bytecode: a changed file may be as old and as long as before
    settings = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    # a file, because a pipe would be waited for as long as any process that is left holds it
    with tempfile.TemporaryFile("w+") as output:
        running = subprocess.Popen(
            [*command, mark, *(f"tests/{name}.py" for name in names)],
            cwd=tree,
            env={**os.environ, **settings, **environment},
            start_new_session=True,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            status = running.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, 9)
            running.wait()
            return "time"
        output.seek(0)
        said = output.read()
    if status in (0, 5):  # 5: none has the mark
        return None
    failed = re.search(r"^(?:FAILED|ERROR) tests/(\w+)\.py", said, re.M)
    return failed[1] if failed else f"status {status}"


# --- the changes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A change of one line: bytes of a file, from where to where, and what takes their place."""

    file: str
    line: int
    kind: str
    begin: int
    end: int
    new: str

    def apply(self, content: bytes) -> bytes:
        return content[: self.begin] + self.new.encode() + content[self.end :]


PAIRS = "Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn, Add Sub, Mult Div, BitAnd BitOr, And Or"
SWAPPED = {ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult}
for pair in PAIRS.split(", "):
    one, other = (getattr(ast, name) for name in pair.split())
    SWAPPED |= {one: other, other: one}


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield for a node each kind of change, the node to replace, and its new text."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = ast.Compare(node.left, [SWAPPED[type(node.ops[0])]()], node.comparators)
        yield "comparison", node, f"({ast.unparse(other)})"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        other = ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)
        yield "operator", node, f"({ast.unparse(other)})"
    elif isinstance(node, ast.BoolOp):
        yield (
            "operator",
            node,
            f"({ast.unparse(ast.BoolOp(SWAPPED[type(node.op)](), node.values))})",
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", node, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "constant", node, str(node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
        yield "constant", node, repr(node.value + "x")  # prose is left alone
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "condition", node.test, f"(not ({ast.unparse(node.test)}))"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return value", node.value, "None"
    elif isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise):
        yield "dropped statement", node, "pass"


def mutants(file: Path) -> Iterator[Mutant]:
    """Yield the changes of a file, without those of docstrings, annotations and f-strings."""
    content = file.read_bytes()
    starts = [0]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree, left_out = ast.parse(content), set()
    for node in ast.walk(tree):
        parts = [node] if isinstance(node, ast.JoinedStr) else []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.append(node)
        parts += [getattr(node, name, None) for name in ("annotation", "returns")]
        left_out |= {id(inner) for part in parts if part for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        for kind, place, new in changes(node):
            begin = starts[place.lineno - 1] + place.col_offset
            end = starts[place.end_lineno - 1] + place.end_col_offset
            name = file.relative_to(PACKAGE).as_posix()
            yield Mutant(name, place.lineno, kind, begin, end, new)


def draw(seed: int, count: int) -> list[Mutant]:
    """Return changes of `count` lines, drawn from all lines that can be changed.

    A change that is none, or no Python (a statement that is dropped between others), is drawn anew.
    """
    by_line = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for mutant in mutants(file):
            by_line[mutant.file, mutant.line].append(mutant)
    dice, drawn = random.Random(seed), []
    for line in dice.sample(sorted(by_line), len(by_line)):
        mutant = dice.choice(by_line[line])
        content = (PACKAGE / mutant.file).read_bytes()
        try:
            changed = ast.dump(ast.parse(mutant.apply(content))) != ast.dump(ast.parse(content))
        except SyntaxError:
            continue
        drawn += [mutant] * changed
        if len(drawn) == count:
            break
    return drawn


# --- whether they are noticed -----------------------------------------------------------------


def examine(mutant: Mutant, tree: Path, work: Path, slow: bool) -> dict:
    """Run the test files that reach a mutant, or their slow tests, and return what came of it."""
    path = tree / "fairseq_rnnsearch" / mutant.file
    content, began = path.read_bytes(), time.monotonic()
    reached = {file.stem: json.loads(file.read_text()) for file in (work / "reach").glob("*.json")}
    files = [name for name in reached if mutant.line in reached[name]["lines"].get(mutant.file, ())]
    files.sort(key=lambda name: reached[name]["seconds"])
    starts = {name: '"trained"' in (tree / "tests" / f"{name}.py").read_text() for name in files}
    caught = None
    try:
        path.write_bytes(mutant.apply(content))
        for names in filter(None, ([n for n in files if starts[n] == last] for last in (0, 1))):
            limit = 3 * sum(reached[name]["seconds"] for name in names) + MARGIN
            caught = caught or pytest(
                tree, names, "slow" if slow else "not slow", SLOW_LIMIT if slow else limit
            )
    finally:
        path.write_bytes(content)
    seconds = round(time.monotonic() - began)
    old = content[mutant.begin : mutant.end].decode()
    return {**asdict(mutant), "old": old, "caught": caught, "files": files, "seconds": seconds}


def recorded(work: Path, name: str) -> list[dict]:
    """Return what is written of mutants in the files of a name, one for each share."""
    return [json.loads(line) for file in work.glob(f"{name}*.jsonl") for line in file.open()]


def place_of(result: dict) -> tuple[str, int, int]:
    """Return what tells a mutant of one draw from the others."""
    return result["file"], result["line"], result["begin"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=["reach", "run", "show"])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tests", type=Path, default=ROOT / "tests")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--slow", action="store_true")
    options = parser.parse_args()
    work, (part, parts) = options.work.resolve(), map(int, options.share.split("/"))
    results, again = recorded(work, "results"), recorded(work, "slow")
    by_slow = {place_of(result): result["caught"] for result in again}
    if options.command == "show":
        for result in results:
            where = f"{result['file']}, line {result['line']}: {result['kind']}"
            slow = by_slow.get(place_of(result))
            said = result["caught"] or (f"only slow {slow}" if slow else "SURVIVED")
            print(f"{said}: {where} {result['old']!r} -> {result['new']!r}")
        quick = sum(bool(result["caught"]) for result in results)
        print(f"{quick} of {len(results)} are caught by the quick tests")
        print(f"{sum(map(bool, by_slow.values()))} of {len(again)} survivors by the slow ones")
        return
    tree, drawn = work / f"tree{part}", draw(options.seed, options.count)
    shutil.rmtree(tree, ignore_errors=True)
    without = shutil.ignore_patterns(".git", "__pycache__", ".venv")
    shutil.copytree(ROOT, tree, ignore=without)
    if (ROOT / ".venv").exists():  # in which the tests of recipes look for programs
        (tree / ".venv").symlink_to(ROOT / ".venv")
    if options.tests.resolve() != ROOT / "tests":
        shutil.rmtree(tree / "tests")
        shutil.copytree(options.tests, tree / "tests", ignore=without)
        shutil.copy(__file__, tree / "tests")
    if options.command == "reach":
        reach(drawn, tree, work, part, parts)
        return
    done, name = set(map(place_of, results)), "results"
    if options.slow:
        survivors = {place_of(result) for result in results if not result["caught"]}
        drawn = [mutant for mutant in drawn if place_of(asdict(mutant)) in survivors]
        done, name = set(by_slow), "slow"
    for mutant in drawn[part::parts]:
        if place_of(asdict(mutant)) not in done:
            result = examine(mutant, tree, work, options.slow)
            with (work / f"{name}{part}.jsonl").open("a") as file:
                print(json.dumps(result), file=file)
            print(result["caught"] or "SURVIVED", mutant.file, mutant.line, flush=True)


if __name__ == "__main__":
    main()
