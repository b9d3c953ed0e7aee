"""Damaged files by the thousand: each must be read rightly, or refused in one line.

    python tests/fuzz.py --cases 100000 --seed 7
    python tests/fuzz.py --cases 50 --seed 7 --commands      # through the real commands: slow
    python tests/fuzz.py --family links --seed 7 --case 123  # one again, as it was printed
    python tests/fuzz.py --cases 200000 --seed 7 --pickles   # checkpoints made up from their names

prints how many cases of each family were read and how many refused. A case follows from the seed,
the family and its number alone. What is neither is a finding: it is printed with its traceback.
"""

import argparse
import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from fairseq_rnnsearch.errors import UserError  # noqa: E402  (also where it is a script)

Files = dict[str, bytes]
READ, REFUSED = "read", "refused"


@dataclass(frozen=True)
class Family:
    """Files that belong together.

    Attributes:
        files: sound ones, by name.
        read: what the package makes of those in a folder; may write to the folder ``out`` in it.
        expected: the same by other means, for files that were accepted; None: nothing to compare.
    """

    files: Files
    read: Callable[[Path], object]
    expected: Callable[[Path], object] | None = None


class Finding(Exception):
    """A case that was neither read rightly nor refused in one line."""


# --- damage ---------------------------------------------------------------------------------------

PIECES = (
    b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"\r",
    b"\r\n", b"\n", b"\n\n", b" ", b"\t", "\u2028".encode(), "\u00a0".encode(), "\u0663".encode(),
    "\U0001f680".encode(), b"<s>", b" <pad> ", b"</s>", b"<script>alert(1)</script>", b"#", b"-",
    b"p", b"0", b"-1", b"99999999999999999999", b"9" * 5000, b"1e999", b"NaN", b"Infinity", b"null",
    b"[", b"{", b"]", b"}", b'"', b"[" * 100_000, b'{"a":' * 20_000, b"../", b"|", b"=",
    b"#fairseq:overwrite", b"__import__('os')", b"\x80\x02cposix\nsystem\n", b"PK\x03\x04",
)  # fmt: skip


def flip_bits(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        if changed:
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def truncate(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _span(content: bytes, draw: random.Random) -> tuple[int, int]:
    start = draw.randrange(len(content) + 1)
    return start, min(len(content), start + draw.choice((1, 2, 8, 100)))


def cut_out(content: bytes, draw: random.Random) -> bytes:
    start, end = _span(content, draw)
    return content[:start] + content[end:]


def repeat(content: bytes, draw: random.Random) -> bytes:
    start, end = _span(content, draw)
    return content[:end] + content[start:]


def overwrite(content: bytes, draw: random.Random) -> bytes:
    start, end = _span(content, draw)
    return content[:start] + draw.randbytes(end - start) + content[end:]


def insert(content: bytes, draw: random.Random) -> bytes:
    place = draw.choice((0, len(content), draw.randrange(len(content) + 1)))
    return content[:place] + draw.choice(PIECES) + content[place:]


def replace_word(content: bytes, draw: random.Random) -> bytes:
    words = content.split(b" ")
    words[draw.randrange(len(words))] = draw.choice(PIECES)
    return b" ".join(words)


def change_lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    here, there = draw.randrange(len(lines)), draw.randrange(len(lines))
    what = draw.randrange(5)
    if what == 0:
        del lines[here]
    elif what == 1:
        lines.insert(here, lines[there])
    elif what == 2:
        lines[here], lines[there] = lines[there], lines[here]
    else:
        lines[here] = draw.choice((b"", b" ", lines[there] + b" " + lines[here]))
    return b"\n".join(lines)


def encode_otherwise(content: bytes, draw: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    name = draw.choice(("latin-1", "utf-16", "utf-8-sig", "crlf", "cr", "empty", "long"))
    if name in ("crlf", "cr"):
        return content.replace(b"\n", b"\r\n" if name == "crlf" else b"\r")
    if name == "long":
        line = draw.choice(content.split(b"\n"))
        words = line.split() or [b"a"]
        count = 100_000 if draw.randrange(20) == 0 else 1000
        return content.replace(line, b" ".join(draw.choices(words, k=count)), 1)
    return b"" if name == "empty" else text.encode(name, "replace")


CHANGES = (
    flip_bits, flip_bits, truncate, cut_out, repeat, overwrite, insert, insert, replace_word,
    change_lines, change_lines, encode_otherwise,
)  # fmt: skip


def damaged(files: Files, draw: random.Random) -> Files:
    """One to three changes, most of them within a file."""
    changed = dict(files)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        name, other = draw.choice(list(changed)), draw.choice(list(changed))
        what = draw.randrange(30)
        if what == 0:  # one in the place of the other, such as the wrong language
            changed[name], changed[other] = changed[other], changed[name]
        elif what == 1 and len(changed) > 1:
            del changed[name]
        else:
            changed[name] = draw.choice(CHANGES)(changed[name], draw)
    return changed


# --- cases ----------------------------------------------------------------------------------------


def run_case(name: str, family: Family, seed: int, number: int, folder: Path) -> str:
    """Read one damaged set of files.

    Returns:
        READ or REFUSED.

    Raises:
        Finding: anything else.
    """
    draw = random.Random(f"{seed} {name} {number}")
    for file, content in damaged(family.files, draw).items():
        (folder / file).write_bytes(content)
    try:
        found = family.read(folder)
    except UserError as mistake:
        _check_refusal(str(mistake), family, folder)
        return REFUSED
    except BaseException as problem:
        raise Finding(f"{type(problem).__name__}\n{traceback.format_exc(limit=-6)}") from problem
    if family.expected is not None:
        try:
            expected = family.expected(folder)
        except Exception as problem:
            trace = traceback.format_exc(limit=-3)
            raise Finding(f"read {str(found)[:300]}, which is none\n{trace}") from problem
        if found != expected:
            raise Finding(f"read {str(found)[:300]}, expected {str(expected)[:300]}")
    return READ


def _check_refusal(message: str, family: Family, folder: Path) -> None:
    left = [path.name for path in (folder / "out").rglob("*") if path.is_file()]
    if left:
        raise Finding(f"refused, and yet wrote {left}: {message}")
    if len(message) > 1500 or "\n" in message:
        raise Finding(f"not one line: {message[:2000]}")
    if not any(name in message for name in family.files):
        raise Finding(f"names no file: {message}")


def run_cases(
    families: Mapping[str, Family], cases: int, seed: int, only: int | None = None
) -> tuple[dict[str, Counter], list[str]]:
    """As many cases, shared by the families.

    Returns:
        Of each family how many were read and refused; the findings, with how to see them again.
    """
    counts: dict[str, Counter] = {name: Counter() for name in families}
    findings = []
    names = list(families)
    for case in range(cases):
        name, number = names[case % len(names)], case // len(names)
        number = number if only is None else only
        with tempfile.TemporaryDirectory() as folder:
            try:
                counts[name][run_case(name, families[name], seed, number, Path(folder))] += 1
            except Finding as finding:
                counts[name]["findings"] += 1
                findings.append(f"--family {name!r} --seed {seed} --case {number}: {finding}")
    return counts, findings


def fuzz_pickles(options: argparse.Namespace) -> NoReturn:
    from fuzz_pickles import run

    first, cases = (0, options.cases) if options.case is None else (options.case, 1)
    counts, findings = run(cases, options.seed, first)
    print(
        f"{cases:,} pickles: {counts['read']:,} read, {counts['refused']:,} refused in one line, "
        f"{counts['calls']:,} times REDUCE or NEWOBJ reached, {counts['builds']:,} times BUILD, "
        f"{len(findings):,} findings"
    )
    print(*findings, sep="\n", file=sys.stderr)
    sys.exit(bool(findings))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--family", action="append", help="default: all")
    parser.add_argument("--case", type=int, help="this one of the family alone")
    parser.add_argument("--commands", action="store_true", help="through the real commands")
    parser.add_argument("--pickles", action="store_true", help="made up instead of damaged")
    options = parser.parse_args()
    if options.pickles:
        fuzz_pickles(options)
    with tempfile.TemporaryDirectory() as work:
        if options.commands:
            from fuzz_commands import families
        else:
            from fuzz_families import families
        chosen = families(Path(work))
        if options.family:
            chosen = {name: chosen[name] for name in options.family}
        cases = options.cases if options.case is None else len(chosen)
        counts, findings = run_cases(chosen, cases, options.seed, options.case)
    print("| files | cases | read, as expected | refused in one line | findings |")
    print("|---|---|---|---|---|")
    for name, count in counts.items():
        columns = (count.total(), count[READ], count[REFUSED], count["findings"])
        print(f"| {name} | {' | '.join(f'{value:,}' for value in columns)} |")
    for finding in findings:
        print(f"\n{finding}", file=sys.stderr)
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
