"""A thousand damaged files of every kind; `fuzz.py` runs more, and through the real commands."""

import fuzz_commands
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


@pytest.mark.survives("damaged files", cases=CASES)
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
