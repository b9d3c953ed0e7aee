"""Rules that keep the package easy to find one's way in, read from its source and seen in runs."""

import ast
import collections
import re
import sys
from argparse import Namespace
from pathlib import Path

import commands
import pytest
from commands import ROOT, run_process
from omegaconf import OmegaConf

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.runs.options import check_configuration

pytest_plugins = ["trained"]

PACKAGE = Path(__file__).resolve().parents[1] / "fairseq_rnnsearch"
FILES = sorted(PACKAGE.rglob("*.py"))

# fairseq wants some files of a plugin to have one name.
NAMES_TWICE = {"__init__.py", "__main__.py", "alignment_heatmap.py"}


def relative(path):
    return str(path.relative_to(PACKAGE))


def test_no_file_name_stands_twice():
    count = collections.Counter(path.name for path in FILES)
    assert {name for name, times in count.items() if times > 1} <= NAMES_TWICE


def test_no_function_of_a_script_stands_twice():
    """Scripts of all pages, because one that has a function already can lend it to the others."""
    named = r"^(?:async )?(?:function|class) (\w+)|^const (\w+) = (?:async )?[(\w, )]+ =>"
    places = collections.defaultdict(list)
    for path in PACKAGE.rglob("*.js"):
        for names in re.findall(named, path.read_text(encoding="utf-8"), re.M):
            places["".join(names)].append(path.name)
    assert {"Heatmap", "beamSearch", "colourOf", "grey"} <= places.keys()
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_options_are_checked_in_one_namespace_and_in_groups():
    options = {"task": "alignment_heatmap", "max_source_positions": 0}
    group = {"_name": options["task"], "max_source_positions": 0}
    for cfg in (Namespace(**options), OmegaConf.create({"task": group})):
        with pytest.raises(UserError, match=r"^--max-source-positions 0: must be 1 or more"):
            check_configuration(cfg)


# --- state of the whole process -----------------------------------------------------------------

# What changes while a program runs and belongs to no object, but for locks and functools.cache.
GLOBALS = {
    ("runs/programs.py", "_ends"),  # what fairseq's program that runs does at its end
    ("runs/patches.py", "_is_reading"),  # whether this thread loads a model in somebody's program
}
CONTAINERS = {"Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set"}
CHANGES = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"}
CHANGES |= {"setdefault", "update"}


def stores(tree, owner):
    """Names, after ``owner``, of which a part is set or that are changed by a method."""
    for node in ast.walk(tree):
        changed = None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed = node.func.value if node.func.attr in CHANGES else None
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            changed = node
        written = ast.unparse(changed) if changed is not None else ""
        if written.startswith(owner):
            yield written.removeprefix(owner)


def mutable_globals(source):
    """Names of a module that hold what changes: containers, or objects of classes that do."""
    tree = ast.parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    methods = {
        name: [part for part in node.body if getattr(part, "name", "__init__") != "__init__"]
        for name, node in classes.items()
    }
    changing = {
        name for name, parts in methods.items() if any(list(stores(p, "self.")) for p in parts)
    }
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    changed = {name for function in functions for name in stores(function, "")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {part.id for t in targets for part in ast.walk(t) if isinstance(part, ast.Name)}
            called = getattr(node.value, "func", None)
            made = ast.unparse(called).split("[")[0].split(".")[-1] if called else ""
            if made in {"ContextVar", "local", *changing} or made.startswith("Weak"):
                yield from names
            elif made in CONTAINERS or not called:
                yield from names & changed


def test_at_most_two_globals_change():
    found = {(relative(path), name) for path in FILES for name in mutable_globals(path.read_text())}
    assert found == GLOBALS and len(GLOBALS) <= 2


# --- what is replaced ---------------------------------------------------------------------------

UNWANTED = ("sys._getframe", "FunctionType", "__code__", ".f_back", "__new__", "vars(self).update")


def test_no_tricks():
    for path in FILES:
        source = path.read_text()
        assert not [trick for trick in UNWANTED if trick in source], path


SEEN = """
import sys, types

def attributes():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in {"fairseq", "fairseq_cli", "torch", "sys", "builtins", "os",
                                  "logging", "signal", "warnings", "argparse", "atexit"}:
            for attribute, value in list(vars(module).items()):
                found[name, attribute] = id(value)
                if isinstance(value, type) and value.__module__.split(".")[0] in {
                    "fairseq", "fairseq_cli", "torch", "argparse", "logging"
                }:
                    for inner, held in list(vars(value).items()):
                        found[f"{value.__module__}:{value.__qualname__}", inner] = id(held)
    return found

def changed(before, after):
    return sorted({key for key in before.keys() & after.keys() if before[key] != after[key]}
                  | {key for key in after.keys() - before.keys() if key[0] in old})
"""
PROGRAMS = "import fairseq_cli.generate, fairseq_cli.interactive, fairseq_cli.preprocess\n" + (
    "import fairseq_cli.train, fairseq_cli.validate, torch.utils.data.dataloader\n"
)
LOADED = (
    SEEN
    + PROGRAMS
    + """
import matplotlib, sacrebleu, torch._dynamo
import fairseq.sequence_scorer, torch.nn.parallel
IMPORT
before, old = attributes(), {name for name, _ in attributes()}
"""
)


def run(program, *arguments):
    """What a program prints, in a process that has imported fairseq and not this package."""
    return commands.run("python", "-c", program, *arguments).ok().out


def test_importing_the_package_changes_nothing_but_registries():
    program = LOADED.replace("IMPORT", "") + (
        "import fairseq_rnnsearch\n"
        "print([key for key in changed(before, attributes())"
        " if not key[1].startswith('_') and 'fairseq_rnnsearch' not in key[1]])"
    )
    assert run(program).splitlines()[-1] == "[]"


def test_importing_the_package_imports_neither_fairseq_nor_torch():
    """In a process of its own, because the warm one has imported both."""
    program = (
        "import sys, fairseq_rnnsearch, fairseq_rnnsearch.align\n"
        "print(sys.modules.keys() & {'fairseq', 'torch'})"
    )
    ran = run_process([sys.executable, "-c", program], cwd=ROOT)
    assert ran.stdout == "set()\n", ran.stderr


@pytest.mark.slow
def test_load_leaves_the_root_logger_alone():
    """A module of fairseq makes it show what every other package says for debugging.

    Another one calls what torch has deprecated, which torch 2.14 says to all.
    """
    program = (
        "import logging\n"
        "from fairseq_rnnsearch import UserError, load\n"
        "try:\n"
        "    load('LICENSE', '.')  # no model, which is seen after the import\n"
        "except UserError:\n"
        "    pass\n"
        "print(logging.root.level == logging.WARNING, logging.root.handlers)"
    )
    ran = run_process([sys.executable, "-W", "default", "-c", program], cwd=ROOT)
    assert ran.stdout.splitlines()[-1:] == ["True []"], ran.stderr
    assert "torch.jit" not in ran.stderr


def test_the_table_is_what_is_replaced():
    program = LOADED.replace("IMPORT", "import fairseq_rnnsearch") + (
        "from fairseq_rnnsearch.runs import patches\n"
        "before, old = attributes(), {name for name, _ in attributes()}\n"
        "patches.patch_fairseq()\n"
        "replaced = {name for _, name in changed(before, attributes())}\n"
        "assert len({patch.place for patch in patches.PATCHES}) == len(patches.PATCHES)\n"
        "print(sorted(replaced ^ {patch.name for patch in patches.PATCHES}))\n"
        "again = attributes()\n"
        "patches.patch_fairseq()\n"
        "print(changed(again, attributes()))\n"
    )
    assert run(program).splitlines()[-2:] == ["[]", "[]"]


def test_what_load_replaces_is_given_back():
    program = LOADED.replace("IMPORT", "import fairseq_rnnsearch") + (
        "from fairseq_rnnsearch.runs import patches\n"
        "before, old = attributes(), {name for name, _ in attributes()}\n"
        "with patches.reading_as_data():\n"
        "    names = {name for _, name in changed(before, attributes())}\n"
        "    print(names == {patch.name for patch in patches.READING})\n"
        "print(changed(before, attributes()))\n"
    )
    assert run(program).splitlines()[-2:] == ["True", "[]"]


@pytest.mark.parametrize(
    "order",
    [
        "import fairseq_rnnsearch\nfrom fairseq_cli import train",
        "from fairseq_cli import train\nimport fairseq_rnnsearch",
    ],
)
def test_commands_are_patched_in_either_order_of_imports(order, tmp_path):
    program = order + (
        "\nimport sys\n"
        f"sys.argv[1:] = [{str(tmp_path)!r}, '--arch', 'rnnsearch_30', '--task',"
        " 'alignment_heatmap', '--batch-size', '0', '--cpu']\n"
        "train.cli_main()"
    )
    refused = commands.run("python", "-c", program)
    assert refused.error() == "--batch-size 0: must be 1 or more"


LATE = """
import sys
from fairseq_rnnsearch.runs import patches
import fairseq.sequence_scorer
patches.patch_fairseq()
print([name for name in sys.modules if name.startswith("fairseq_cli.")])
from fairseq_cli import train
train.cli_main()
"""


def test_a_program_that_is_imported_after_the_patching_trains(small_corpus, tmp_path):
    options = f"{commands.TASK} {commands.QUIET} {commands.MODEL} {commands.PAPER}"
    options += f" --max-update 1 --heatmap-samples 0 --save-dir={tmp_path}"
    trained = commands.run("python", "-c", LATE, small_corpus.data, options).ok()
    assert trained.out.splitlines()[0] == "[]"
    assert (tmp_path / "checkpoint_last.pt").exists()


def test_the_table_is_printed():
    printed = run("from fairseq_rnnsearch.__main__ import main; main(['patches'])")
    assert " attributes are replaced" in printed.splitlines()[0] and "without it:" in printed


def test_a_process_that_fairseq_starts_is_patched_too():
    """fairseq hands a program's main to the processes of a machine with several GPUs."""
    begun = (
        "import pickle, sys, fairseq_rnnsearch\n"
        "from fairseq_cli import train\n"
        "from fairseq_rnnsearch.runs import patches\n"
        "patches.patch_fairseq()\n"
        "print(pickle.dumps(train.main).hex())"
    )
    child = (
        "import pickle, sys\n"
        "main = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "from fairseq_cli import train\n"
        "from fairseq_rnnsearch.plugin.task import AlignmentHeatmapTask\n"
        "try:\n"
        "    AlignmentHeatmapTask.load_dictionary('nosuch')\n"
        "except ValueError:\n"
        "    print(main.__name__, train.Trainer.__name__)"
    )
    sent = run(begun).split()[-1]
    assert run(child, sent).splitlines()[-1] == "main ResumableTrainer"
