"""A thousand damaged files of every kind, a thousand checkpoints made up; `fuzz.py` runs more."""

import os
import signal

import fuzz_commands
import fuzz_pickles
import pytest
from fuzz import READ, REFUSED, Family, Finding, run_case, run_cases
from fuzz_families import families

from fairseq_rnnsearch.errors import UserError

CASES, SEED = 1000, 1


@pytest.fixture(scope="module")
def every_family(tmp_path_factory):
    return families(tmp_path_factory.mktemp("fuzz"))


def test_sound_files_are_read(every_family, tmp_path):
    assert_read(every_family, tmp_path)


@pytest.mark.slow
def test_sound_files_are_read_by_the_commands(tmp_path):
    assert_read(fuzz_commands.families(tmp_path), tmp_path)


def assert_read(families, tmp_path):
    for name, family in families.items():
        folder = tmp_path / name.replace(" ", "")
        folder.mkdir()
        for file, content in family.files.items():
            (folder / file).write_bytes(content)
        found = family.read(folder)
        assert family.expected is None or found == family.expected(folder), name


def test_a_thousand_damaged_ones(every_family):
    counts, findings = run_cases(every_family, CASES, SEED)
    assert not findings, "\n\n".join(findings)
    assert sum(count.total() for count in counts.values()) == CASES
    for name, count in counts.items():
        assert count[READ] and count[REFUSED], name  # neither all nor nothing


def failing(error):
    def read(folder):
        raise error

    return read


def wrote_and_refused(folder):
    (folder / "out").mkdir()
    (folder / "out" / "model.pt").touch()
    raise UserError("file is broken")


BAD = {
    "a traceback": failing(KeyError("x")),
    "an exit": failing(SystemExit(1)),
    "two lines": failing(UserError("file is\nbroken")),
    "no file named": failing(UserError("something is broken")),
    "another result": lambda folder: 1,
    "a file that looks complete": wrote_and_refused,
}


@pytest.mark.parametrize("name", BAD)
def test_what_counts_as_a_finding(tmp_path, name):
    with pytest.raises(Finding):
        run_case("x", Family({"file": b"a b\n"}, BAD[name], lambda folder: 2), 1, 1, tmp_path)


def test_a_case_follows_from_its_number(tmp_path):
    seen = []

    def read(folder):
        seen.append({path.name: path.read_bytes() for path in folder.iterdir()})

    for seed, number in ((1, 1), (1, 1), (1, 2), (2, 1)):
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        run_case("x", Family({"a": b"one two\n" * 50}, read), seed, number, folder)
    assert seen[0] == seen[1] and seen[0] != seen[2] and seen[0] != seen[3]


# --- checkpoints made up from the names that they may hold ----------------------------------------


@pytest.mark.slow
def test_a_thousand_pickles():
    counts, findings = fuzz_pickles.run(CASES, SEED)
    assert not findings, "\n\n".join(findings)
    assert counts["read"] + counts["refused"] == CASES
    assert counts["read"] > CASES / 20  # some go through
    assert counts["calls"] > 2 * CASES and counts["builds"] > CASES


def crash(path):
    os.kill(os.getpid(), signal.SIGSEGV)


def crash_at_some(path):
    return crash(path) if b"argparse" in path.read_bytes() else "read"


def imports(path):
    __import__("this")
    return "read"


def starts_a_process(path):
    os.system(":")
    return "read"


def takes_memory(path):
    bytearray(b"x" * 2**29)
    return "read"


@pytest.mark.parametrize(
    ("reader", "finding"),
    [
        (crash, "SIGSEGV"),
        (imports, "'this'"),
        (starts_a_process, "os.system"),
        (takes_memory, "memory"),
    ],
)
def test_what_counts_as_a_finding_in_a_child(reader, finding):
    _, findings = fuzz_pickles.run(1, SEED, first=100, reader=reader)
    assert [text.split(":")[0] for text in findings] == [f"--seed {SEED} --case 100"]
    assert finding in findings[0]


def test_cases_after_a_crash_are_read():
    counts, findings = fuzz_pickles.run(40, SEED, reader=crash_at_some)
    assert 1 < len(findings) < 40 and len(findings) + counts["read"] == 40
