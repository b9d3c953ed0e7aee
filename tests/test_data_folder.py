"""Dictionaries and binarised data: sound ones are counted, damaged ones are named."""

import hashlib
import struct
from pathlib import Path

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


def write(folder, sentences=SENTENCES, symbols=SYMBOLS, name="train.en-fr.en"):
    """As fairseq-preprocess does."""
    prefix = folder / name
    builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", symbols)
    for sentence in sentences:
        builder.add_item(torch.tensor(sentence))
    builder.finalize(f"{prefix}.idx")
    return prefix


def data(change):
    return lambda prefix: _edit(f"{prefix}.bin", change)


def _edit(path, change):
    with open(path, "rb") as file:
        content = bytearray(file.read())
    changed = change(content)
    with open(path, "wb") as file:
        file.write(content if changed is None else changed)


def put(format, place, value):
    return lambda content: struct.pack_into(format, content, place, value)


def test_the_parts_of_a_split_and_no_other(tmp_path):
    for name in ("train", "train1", "valid", "training", "train-old"):
        write(tmp_path, name=f"{name}.en-fr.en")
    write_checksums(tmp_path, {})
    for name in ("train1", "training", "train-old"):
        data(put("<H", 0, 6))(tmp_path / f"{name}.en-fr.en")
    check_split(tmp_path, "valid", ("en", "fr"))
    with pytest.raises(UserError, match=r"train1\.en-fr\.en\.bin is not as"):
        check_split(tmp_path, "train", ("en",))
    write(tmp_path, name="train1.en-fr.en")
    check_split(tmp_path, "train", ("en",))


def test_a_word_for_another_is_found_by_its_checksum(tmp_path):
    prefix = write(tmp_path)
    (tmp_path / "dict.en.txt").write_bytes(b"a 1\n")
    check_split(tmp_path, "train", ("en",))
    write_checksums(tmp_path, {})
    lines = (tmp_path / "SHA256SUMS").read_text().splitlines()
    names = [line.split("  ")[1] for line in lines]
    assert names == ["dict.en.txt", "train.en-fr.en.bin", "train.en-fr.en.idx"]
    check_split(tmp_path, "train", ("en",))
    check_checksum(tmp_path / "dict.en.txt")
    data(put("<H", 0, 6))(prefix)
    with pytest.raises(UserError, match=r"train\.en-fr\.en\.bin is not as fairseq-preprocess"):
        check_split(tmp_path, "train", ("en",))
    (tmp_path / "SHA256SUMS").write_text("\n".join(lines[::2]))
    check_split(tmp_path, "train", ("en",))
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"SHA256SUMS, line 1: .* is not a line of sha256sum"):
        check_split(tmp_path, "train", ("en",))


def test_an_index_of_other_sentences_is_found_by_its_checksum(tmp_path):
    prefix = write(tmp_path)
    write_checksums(tmp_path, {})
    first, second, *others = SENTENCES
    numbers = Path(f"{prefix}.bin").read_bytes()
    write(tmp_path, [first + second, *others])
    assert Path(f"{prefix}.bin").read_bytes() == numbers
    with pytest.raises(UserError, match=r"train\.en-fr\.en\.idx is not as fairseq-preprocess"):
        check_split(tmp_path, "train", ("en",))


A = hashlib.sha256(b"a 1\n").hexdigest()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{A}\tdict.en.txt", "not a line of sha256sum"),
        (f"{A[:-1]}  dict.en.txt", "not a line of sha256sum"),
        (f"{A}  ../dict.en.txt", "not a line of sha256sum"),
    ],
)
def test_lines_that_are_none_of_sha256sum(tmp_path, line, message):
    (tmp_path / "dict.en.txt").write_bytes(b"a 1\n")
    (tmp_path / "SHA256SUMS").write_text(f"{A}  dict.en.txt\n{A}  dict.en.txt\n{line}\n")
    with pytest.raises(UserError, match=f"SHA256SUMS, line 3: .*{message}") as caught:
        check_checksum(tmp_path / "dict.en.txt")
    assert "\n" not in str(caught.value)


def test_what_is_added_does_not_bless_what_has_changed(tmp_path):
    for name in ("train.en-fr.en.idx", "dict.en.txt"):
        (tmp_path / name).write_text("old")
    write_checksums(tmp_path, {})
    (tmp_path / "train.en-fr.en.idx").write_text("rot")
    (tmp_path / "dict.en.txt").write_text("rot")
    before = listed_files(tmp_path)
    (tmp_path / "test.en-fr.en.idx").write_text("added")
    write_checksums(tmp_path, before)
    check_checksum(tmp_path / "test.en-fr.en.idx")
    for name in ("train.en-fr.en.idx", "dict.en.txt"):
        with pytest.raises(UserError, match=f"{name} is not as fairseq-preprocess wrote it"):
            check_checksum(tmp_path / name)


def test_data_that_is_made_anew_has_new_checksums(tmp_path):
    names = ("train.en-fr.en.idx", "train.en-fr.en.bin", "dict.en.txt")
    for name in names:
        (tmp_path / name).write_text("old")
    write_checksums(tmp_path, {})
    before = listed_files(tmp_path)
    for name in names:
        (tmp_path / name).write_text("made anew")
    write_checksums(tmp_path, before)
    for name in names:
        check_checksum(tmp_path / name)


def test_an_index_of_more_than_two_gigabytes(tmp_path):
    """As several processes leave it: sizes of 32 bits, whose sum is larger."""
    finalize = avoid_int32_overflow(MMapIndexedDatasetBuilder.finalize)
    builder = MMapIndexedDatasetBuilder(tmp_path / "train.bin", dtype=np.int32)
    builder._sizes = [np.int32(2**28)] * 4
    finalize(builder, tmp_path / "train.idx")
    index = MMapIndexedDataset.Index(tmp_path / "train.idx")
    assert index._pointers.tolist() == [0, 2**30, 2**31, 3 * 2**30]
