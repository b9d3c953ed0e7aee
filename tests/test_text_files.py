"""Text as it is or packed by gzip: read alike, and named in one line where it cannot be."""

import gzip
import re

import pytest
from text_files import read_lines, read_pairs

from fairseq_rnnsearch.errors import UserError

PACKED = gzip.compress("é\nb\n".encode() * 99)


def test_the_plain_one_is_read_first(tmp_path):
    (tmp_path / "t.en.gz").write_bytes(gzip.compress("packed à\n\n".encode()))
    assert read_lines(tmp_path / "t.en") == ["packed à", ""]
    (tmp_path / "t.en").write_text("plain\nwithout end")
    assert read_lines(tmp_path / "t.en") == ["plain", "without end"]


BROKEN = {
    "neither": ({}, "has neither t.en nor t.en.gz"),
    "a bit flipped": (
        {"t.en.gz": PACKED[:12] + bytes([PACKED[12] ^ 8]) + PACKED[13:]},
        "t.en.gz is a broken gzip file: ",
    ),
    "not UTF-8": ({"t.en": b"caf\xe9\n"}, "t.en or its .gz is not UTF-8 text: "),
    "a folder": ({"t.en": None}, "t.en cannot be read: Is a directory"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_cannot_be_read_is_one_line(tmp_path, kind):
    files, line = BROKEN[kind]
    for name, content in files.items():
        if content is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=re.escape(line)) as caught:
        read_lines(tmp_path / "t.en")
    assert "\n" not in str(caught.value)


def test_pairs_have_two_sides(tmp_path):
    (tmp_path / "t.en").write_text("a\nb\n")
    (tmp_path / "t.fr").write_text("c\n")
    with pytest.raises(UserError, match=r"t\.en has 2 lines and .*/t\.fr has 1; each line must"):
        read_pairs(tmp_path / "t")
