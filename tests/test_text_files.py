"""Text as it is or packed by gzip: read alike."""

import gzip

import pytest
from text_files import read_lines, read_pairs

from fairseq_rnnsearch.errors import UserError


def test_the_plain_one_is_read_first(tmp_path):
    (tmp_path / "t.en.gz").write_bytes(gzip.compress("packed à\n\n".encode()))
    assert read_lines(tmp_path / "t.en") == ["packed à", ""]
    (tmp_path / "t.en").write_text("plain\nwithout end")
    assert read_lines(tmp_path / "t.en") == ["plain", "without end"]


def test_pairs_have_two_sides(tmp_path):
    (tmp_path / "t.en").write_text("a\nb\n")
    (tmp_path / "t.fr").write_text("c\n")
    with pytest.raises(UserError, match=r"t\.en has 2 lines but .*/t\.fr has 1 line; each line"):
        read_pairs(tmp_path / "t")
