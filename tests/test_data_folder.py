"""Dictionaries and binarised data: sound ones are counted, damaged ones are named."""

import hashlib

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.runs.preprocessing import avoid_int32_overflow
from fairseq_rnnsearch.text.checksums import (
    check_checksum,
    check_split,
    listed_files,
    write_checksums,
)
from fairseq_rnnsearch.text.dictionary_file import read_dictionary

# --- dictionaries -------------------------------------------------------------------------------


SOUND = {
    "a word with a space": b"a b 2\n",
    "a symbol inside": b"<s>x 1\n",
    "made-up words": b"a 1\nmadeupword0000 0\n",
    "overwriting": b"a 2\na 3 #fairseq:overwrite\n<pad> 3 #fairseq:overwrite\n",
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_dictionaries_are_as_fairseq_reads_them(tmp_path, name):
    path = tmp_path / "dict.en.txt"
    path.write_bytes(SOUND[name])
    ours, theirs = read_dictionary(path), Dictionary.load(str(path))
    assert (ours.symbols, ours.count) == (theirs.symbols, theirs.count)
    assert ours.indices == theirs.indices


BROKEN = {
    "latin1": (b"a 1\n\xe9 1\n", "line 2, byte 1: byte 0xe9"),
    "NUL": (b"a 1\nb\0 1\n", "line 2, byte 2: a NUL"),
    "a word twice": (b"a 2\nb 1\na 1\n", "line 3: the word 'a' a second time, as in line 1"),
    "a symbol": (b"a 2\n<unk> 1\n", "line 2: the word '<unk>' a second time, one of fairseq's"),
    "no word": (b"a 2\n 1\n", "line 2: ' 1' is not a word and a count"),
    "no count": (b"a 2\nb\n", "line 2: 'b' is not a word and a count"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_dictionaries_are_named(tmp_path, name):
    content, message = BROKEN[name]
    path = tmp_path / "dict.en.txt"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_dictionary(path)
    assert str(caught.value).startswith(str(path)) and message in str(caught.value)


# --- binarised data -----------------------------------------------------------------------------

SENTENCES = [[4, 5, 2], [2], [6, 7, 8, 2], [9, 2]]
SYMBOLS = 10


def write(folder, sentences=SENTENCES, name="train.en-fr.en"):
    """As fairseq-preprocess does."""
    builder = indexed_dataset.make_builder(f"{folder / name}.bin", "mmap", SYMBOLS)
    for sentence in sentences:
        builder.add_item(torch.tensor(sentence))
    builder.finalize(f"{folder / name}.idx")


def changed(name):
    return pytest.raises(UserError, match=f"{name} is not as fairseq-preprocess wrote it")


def test_the_parts_of_a_split_and_no_other(tmp_path):
    for name in ("train", "train1", "valid", "training", "train-old"):
        write(tmp_path, name=f"{name}.en-fr.en")
    write_checksums(tmp_path, {})
    for name in ("train1", "training", "train-old"):
        write(tmp_path, [[5, 5, 2], *SENTENCES[1:]], f"{name}.en-fr.en")
    check_split(tmp_path, "valid", ("en", "fr"))
    with changed(r"train1\.en-fr\.en\.bin"):
        check_split(tmp_path, "train", ("en",))
    write(tmp_path, name="train1.en-fr.en")
    check_split(tmp_path, "train", ("en",))


def test_other_words_and_other_sentences_are_found_by_their_checksums(tmp_path):
    write(tmp_path)
    (tmp_path / "dict.en.txt").write_bytes(b"a 1\n")
    check_split(tmp_path, "train", ("en",))
    write_checksums(tmp_path, {})
    lines = (tmp_path / "SHA256SUMS").read_text().splitlines()
    names = [line.split("  ")[1] for line in lines]
    assert names == ["dict.en.txt", "train.en-fr.en.bin", "train.en-fr.en.idx"]
    check_split(tmp_path, "train", ("en",))
    check_checksum(tmp_path / "dict.en.txt")
    first, second, *others = SENTENCES
    write(tmp_path, [first + second, *others])  # the same numbers
    with changed(r"train\.en-fr\.en\.idx"):
        check_split(tmp_path, "train", ("en",))
    write(tmp_path, [[5, 5, 2], second, *others])
    with changed(r"train\.en-fr\.en\.bin"):
        check_split(tmp_path, "train", ("en",))
    (tmp_path / "SHA256SUMS").write_text("\n".join(lines[::2]))
    check_split(tmp_path, "train", ("en",))


A = hashlib.sha256(b"a 1\n").hexdigest()


@pytest.mark.parametrize(
    "line", [f"{A}\tdict.en.txt", f"{A[:-1]}  dict.en.txt", f"{A}  ../dict.en.txt", "\xff"]
)
def test_lines_that_are_none_of_sha256sum(tmp_path, line):
    (tmp_path / "dict.en.txt").write_bytes(b"a 1\n")
    text = f"{A}  dict.en.txt\n{A}  dict.en.txt\n{line}\n"
    (tmp_path / "SHA256SUMS").write_text(text, encoding="latin1")
    with pytest.raises(UserError, match=r"SHA256SUMS, line 3: .*not a line of sha256sum"):
        check_checksum(tmp_path / "dict.en.txt")


def test_what_is_made_anew_or_added_does_not_bless_what_has_changed(tmp_path):
    names = ("train.en-fr.en.idx", "train.en-fr.en.bin", "dict.en.txt")

    def fill(text):
        for name in names:
            (tmp_path / name).write_text(text)

    fill("old")
    write_checksums(tmp_path, {})
    before = listed_files(tmp_path)
    fill("made anew")
    write_checksums(tmp_path, before)
    for name in names:
        check_checksum(tmp_path / name)
    fill("rot")
    before = listed_files(tmp_path)
    (tmp_path / "test.en-fr.en.idx").write_text("added")
    write_checksums(tmp_path, before)
    check_checksum(tmp_path / "test.en-fr.en.idx")
    for name in names:
        with changed(name):
            check_checksum(tmp_path / name)


def test_an_index_of_more_than_two_gigabytes(tmp_path):
    """As several processes leave it: sizes of 32 bits, whose sum is larger."""
    finalize = avoid_int32_overflow(MMapIndexedDatasetBuilder.finalize)
    builder = MMapIndexedDatasetBuilder(tmp_path / "train.bin", dtype=np.int32)
    builder._sizes = [np.int32(2**28)] * 4
    finalize(builder, tmp_path / "train.idx")
    index = MMapIndexedDataset.Index(tmp_path / "train.idx")
    assert index._pointers.tolist() == [0, 2**30, 2**31, 3 * 2**30]
