"""Broken text files, each named in one line; sound ones, whose lines are fairseq's."""

import sys

import pytest

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.corpus import check_text

WIDE_SPACES = [chr(c) for c in range(128, sys.maxunicode + 1) if chr(c).isspace()]


def written(folder, content, name="text.en"):
    (folder / name).write_bytes(content)
    return folder / name


SOUND = {
    "no final newline": b"a b\nc d e",
    "CRLF": b"a b\r\nc\r\n\r\nd\r\n",
    "separators fairseq does not break at": "a\vb\fc\x1cd\x1ee\x85f\u2028g\u2029h\nz\n".encode(),
    "every wide space": "w".join(["", *WIDE_SPACES, ""]).encode() + b"\n",
    "bytes of spaces inside other characters": "Å… à‚ ᚠ 、\u200b\u180e x\n".encode(),
    "what begins other files, later": b"a\nBZh b\n%PDF-1 c\nRar! d\n",
    "words that contain a symbol": b"a<s>b <s>b a</s> x<pad> <S> < s > <<s>>\n",
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_files_have_the_lines_of_fairseq(tmp_path, name):
    path = written(tmp_path, SOUND[name])
    with path.open(encoding="utf-8") as file:  # text mode, readline
        assert check_text(path) == sum(1 for _ in file)


BROKEN = {
    "empty": (b"", " is empty; expected one sentence per line"),
    "latin1": (b"a\ncaf\xe9 b\n", ", line 2, byte 4: byte 0xe9 is not valid UTF-8; convert"),
    "cut character": (b"a\nab\xc3", ", line 2, byte 3: byte 0xc3 is not valid UTF-8"),
    "NUL": (b"a\n\nb\0c\n", ", line 3, byte 2: a NUL byte; expected plain UTF-8"),
    "byte order mark": (b"\xef\xbb\xbfa\n", " starts with a UTF-8 byte order mark (EF BB BF)"),
    "lone CR": (b"a\nb\rc\n", ", line 2, byte 2: a carriage return inside the line"),
    "after many lines": (
        "été \r\n".encode() * 1000 + b"ab\xff\n",
        ", line 1001, byte 3: byte 0xff",
    ),
    "several mistakes": (b"a\0b\rc <s> \xff\n", ", line 1, byte 2: a NUL byte"),
    "<pad>": (b"a\nb <pad> c\n", ", line 2, byte 3: the word <pad> is reserved"),
    "symbol between wide spaces": (
        *("a<s>b\u00a0<s>\u2028c\n".encode(), ", line 1, byte 8: the word <s> is reserved"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_named(tmp_path, name):
    content, message = BROKEN[name]
    path = written(tmp_path, content)
    with pytest.raises(UserError) as caught:
        check_text(path)
    assert str(caught.value).startswith(f"{path}{message}")
