"""Pairs as people keep them: what is read, what is left out, and what is no parallel text."""

import argparse
import bz2
import csv
import gzip
import io
import lzma
import os
import random
import shutil
import sys
from functools import partial

import pytest
from commands import run_process

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.lengths import warning_of
from fairseq_rnnsearch.text.tables import pairs_in
from fairseq_rnnsearch.train import pairs as corpora
from fairseq_rnnsearch.train.pairs import read_columns, read_two_files

LANGUAGES = ("en", "fr")
PACKERS = {
    **{".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress},
    ".lzma": partial(lzma.compress, format=lzma.FORMAT_ALONE),
}


@pytest.fixture
def file(tmp_path):
    def write(name, text):
        content = text.encode() if isinstance(text, str) else text
        path = tmp_path / name
        path.write_bytes(PACKERS.get(path.suffix, bytes)(content))
        return path

    return write


def test_plain_and_packed_files_are_read_alike(file):
    source, target = "a  b\nc\r\nd\n \n", "A\nB\tb\nD\nE"
    kept = [("a b", "A"), ("c", "B b"), ("d", "D")]
    for end in ("", *PACKERS):
        read = read_two_files(file(f"t.en{end}", source), file(f"t.fr{end}", target))
        assert (read.kept, read.read) == (kept, 4)
        assert read.left_out == {"an empty side": 1} and not read.notes
    columns = read_columns(file("t.tsv.gz", "a b\tA\tTom\nno tab\nc\tB\nd \t\n"))
    assert columns.kept == [("a b", "A"), ("c", "B")] and columns.read == 4
    assert columns.left_out == {"no tab": 1, "an empty side": 1}
    assert "1 line with more than two columns" in columns.notes[0]


def test_quotation_marks_of_csv_are_no_text(file):
    """Where fields that need it are quoted, or all; elsewhere the marks are the text's own."""
    rows = [('a "b"\tc', "A"), ("d", '"D"')] * 20
    for pairs, marks in (
        (rows, {}), (rows, {"quoting": csv.QUOTE_ALL}),
        ([('"b" b', '""B"'), ("a", '"A"')], {"quoting": csv.QUOTE_NONE, "quotechar": None}),
    ):  # fmt: skip
        csv.writer(written := io.StringIO(), "excel-tab", **marks).writerows(pairs)
        path = file("q.tsv.xz", written.getvalue())
        assert list(pairs_in([path])) == pairs and len(read_columns(path).kept) == len(pairs)


OTHERS = {
    "JSON": '{"en": "a b", "fr": "A, B"}\n' * 30,
    "JSON, a list": '["a b", "A, B"]\n' * 30,
    "JSON with": '[\n' + '{"translation": {"en": "a b", "fr": "A, B"}},\n' * 29
    + '{"en": "a b", "fr": "A, B"}]\n',
    r"\|\|\|": "a b ||| A, B\n" * 30,
    "comma": 'a b,"A, B"\n' * 30,
    "semicolon": "a b;A, B\n" * 30,
    "TMX": "<?xml version='1.0'?><tmx><body>\n"
    + "<tu><tuv><seg>a b</seg></tuv><tuv><seg>A,\nB</seg></tuv></tu>\n" * 30 + "</body></tmx>\n",
    "XLIFF": '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2"><file>\n'
    + "<trans-unit><source>a b</source><target>A, B</target></trans-unit>\n" * 30
    + "</file></xliff>\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_table_is_named_and_can_be_converted(file, kind):
    path = file("pairs", OTHERS[kind])
    with pytest.raises(UserError, match=f"line 1: no tab.*{kind}") as refused:
        read_columns(path)
    command = str(refused.value).split("`")[1]
    if shutil.which(command.split()[0]):
        run_process(["bash", "-c", command], cwd=path.parent)
        assert read_columns(path.with_name("pairs.tsv")).kept == [("a b", "A, B")] * 30


NONE = {
    "other lengths": ("a\nb\nc\n", "A\n", r"t.en has 3 lines but .*t.fr has 1 line; each line"),
    "no text": (b"\xff\xfea\0", "A\n", r"t.en, line 1, byte 1: byte 0xff .*-f UTF-16"),
    "half a gzip file": (
        gzip.compress(b"a\n" * 99)[:-9],
        "A\n",
        r"t.en cannot be read: broken packed file",
    ),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_parallel_text_is_named(file, name):
    *texts, message = NONE[name]
    with pytest.raises(UserError, match=message):
        read_two_files(*(file(f"t.{side}", x) for side, x in zip(LANGUAGES, texts, strict=True)))


def test_lines_that_have_slid_are_noticed(file):
    """A line is lost, or the order; not where the text is in order of length."""
    draw = random.Random(1)
    lengths = [int(draw.lognormvariate(3, 0.6)) + 1 for _ in range(2000)]
    lost, shuffled = lengths[:600] + lengths[601:] + [3], draw.sample(lengths, 2000)
    for source, target, first in (
        (lengths, lengths, None), (sorted(lengths), sorted(lengths)[1:] + [9], None),
        (lengths, lost, "601 to 800"), (lengths, shuffled, "1 to 200"),
        (sorted(lengths), shuffled, "1 to 2000"),
    ):  # fmt: skip
        texts = ("".join("x" * n + "\n" for n in side) for side in (source, target))
        files = [file(f"t.{number}", text) for number, text in enumerate(texts)]
        notes = read_two_files(*files).notes
        assert [f"from lines {first} on" in note for note in notes] == [True] * bool(first)
        counts = ([len(side.strip()) for side in pair] for pair in pairs_in(files))
        assert bool(notes) == bool(warning_of("t", counts))


def options(file, pairs):
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    given = dict.fromkeys(("source", "target", "valid", "test", "mix"))
    return argparse.Namespace(**given, pairs=file("t.tsv", text))


def test_what_is_left_out_is_counted_once(file):
    pairs = [(f"source {n // 2}", f"target {n}") for n in range(60)]  # each source sentence twice
    pairs += [("one", "word " * 10), ("", "nothing"), pairs[0]]
    pairs += [("a", "word " * 9), ("oneword", "o n e " * 4)]  # alike in words, or in characters
    given = options(file, pairs)
    corpus = read_columns(given.pairs)
    corpora.leave_out_unequal(corpus)
    splits = corpora.split(corpus, given, LANGUAGES, seed=1)
    assert corpus.read == 65 and corpus.left_out["an empty side"] == 1
    assert corpus.left_out["one side more than 9 times as long as the other"] == 1
    # What was read is in a part, or has been left out for one reason.
    assert sum(map(len, splits.values())) + corpus.left_out.total() == 65
    assert corpus.left_out[corpora.HELD_OUT] > 0
    for part in ("valid", "test"):
        assert not {s for s, _ in splits[part]} & {s for s, _ in splits["train"]}


def test_repeated_pairs_do_not_enlarge_what_is_held_out(file):
    given = options(file, [(f"a {n % 100}", f"b {n % 100}") for n in range(2000)])
    splits = corpora.split(read_columns(given.pairs), given, LANGUAGES, seed=1)
    assert {name: len(pairs) for name, pairs in splits.items()} == {
        "train": 20 * (100 - 5 - 4), "valid": 5, "test": 4,
    }  # fmt: skip


def test_what_is_held_out_follows_from_the_seed_alone():
    """Not from the order of Python's sets, which differs between its processes."""
    code = "import random; from fairseq_rnnsearch.train.pairs import hold_out;"
    code += "print(hold_out([(f'a {n}', 'b') for n in range(99)], random.Random(1))[1])"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    found = run_process([sys.executable, "-c", code], env=environment).stdout
    pairs = [(f"a {n}", "b") for n in range(99)]
    assert found == f"{corpora.hold_out(pairs, random.Random(1))[1]}\n" and found.count("a ") == 4


def test_a_line_that_is_no_text_is_left_out_and_counted(file):
    lines = [f"word {n}".encode() for n in range(200)]  # one in a hundred may be none
    lines[6], lines[8] = b"a\rb", b"caf\xe9"
    target = file("t.fr", "\n".join(f"mot {n} <s>" for n in range(200)))
    read = read_two_files(file("t.en", b"\n".join(lines)), target)
    assert len(read.kept) == 198 and read.left_out == {"an empty side": 2}
    [note] = read.notes
    assert note.startswith("left out, as no text: 2 lines; the first: ")
    assert "t.en, line 7, byte 2: a carriage return" in note
    with pytest.raises(UserError, match=r"line 1, byte 4: .*UTF-8.* \(and 199 other lines\)"):
        read_two_files(file("t.en", b"\n".join([b"caf\xe9"] * 200)), target)


def test_text_of_a_test_set_is_named_where_it_is_trained_on(file):
    pairs = [(f"a {n}", f"b {n}") for n in range(60)]
    for side, language in enumerate(("en", "fr")):
        file(f"given.{language}.gz", "".join(f"{pair[side]}\n" for pair in pairs[:3]))
    given = options(file, pairs)
    given.test = given.pairs.with_name("given")
    corpus = read_columns(given.pairs)
    splits = corpora.split(corpus, given, LANGUAGES, seed=1)
    assert splits["test"] == pairs[:3] and len(splits["train"]) == 60 - len(splits["valid"])
    assert "3 pairs of the corpus with a source sentence of " in corpus.notes[0]
    assert " remain: " in corpus.notes[0]
    assert set(splits["train"]) | set(splits["valid"]) == set(pairs)


def test_mixed_pairs_are_for_training_alone(file):
    given = options(file, [(f"a {n}", f"b {n}") for n in range(60)])
    given.mix = file("old.tsv", "c\td\n" * 9)
    given.valid = given.test = file("given.en", "x\n").with_suffix("")
    file("given.fr", "y\n")
    parts = corpora.read_parts(given, LANGUAGES, seed=1)
    assert {part: len(pairs) for part, pairs in parts.splits.items()} == {
        "train": 69, "valid": 1, "test": 1,
    }  # fmt: skip
    assert parts.pairs == 69 and parts.texts[1].words == 60 * 2 + 9


def test_what_is_wrong_with_a_given_part_is_said(file):
    given = options(file, [(f"a {n}", f"b {n}") for n in range(60)])
    given.valid = given.pairs.with_name("given")
    file("given.en", "x\ty\n\n")
    file("given.fr", "z\nz\n")
    corpus = read_columns(given.pairs)
    splits = corpora.split(corpus, given, LANGUAGES, seed=1)
    (of_sides,) = corpus.notes
    assert splits["valid"] == [("x y", "z")]
    assert of_sides == f"{given.valid}: left out: 1 pair with an empty side"
    file("given.en", "\n\n")
    with pytest.raises(UserError, match=r"given: only 0 usable pairs for valid; at least 1 needed"):
        corpora.split(read_columns(given.pairs), given, LANGUAGES, seed=1)
