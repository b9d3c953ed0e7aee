"""Text as it is or packed by gzip: read alike."""

import gzip

from text_files import read_lines


def test_the_plain_one_is_read_first(tmp_path):
    (tmp_path / "t.en.gz").write_bytes(gzip.compress("packed à\n\n".encode()))
    assert read_lines(tmp_path / "t.en") == ["packed à", ""]
    (tmp_path / "t.en").write_text("plain\nwithout end")
    assert read_lines(tmp_path / "t.en") == ["plain", "without end"]
