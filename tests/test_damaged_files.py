"""Damaged files, searched for by hypothesis: each is read rightly, or refused in one line."""

import json
import re

import numpy as np
import pytest
from fairseq.data import Dictionary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_rnnsearch.align.links import read_links
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import Alignment, read_alignments, write_gallery
from fairseq_rnnsearch.text.corpus import check_parallel
from fairseq_rnnsearch.text.dictionary_file import read_dictionary

PIECES = (
    b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"\r",
    b"\r\n", b"\n", b"\n\n", b" ", b"\t", "\u2028".encode(), "\u00a0".encode(), "\u0663".encode(),
    "\U0001f680".encode(), b"<s>", b" <pad> ", b"</s>", b"<script>alert(1)</script>", b"#", b"-",
    b"p", b"0", b"-1", b"99999999999999999999", b"9" * 5000, b"1e999", b"NaN", b"Infinity", b"null",
    b"[", b"{", b"]", b"}", b'"', b"[" * 100_000, b'{"a":' * 20_000, b"../", b"|", b"=",
    b"#fairseq:overwrite", b"__import__('os')", b"\x80\x02cposix\nsystem\n", b"PK\x03\x04",
)  # fmt: skip


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """Content with bits flipped, parts missing, repeated or random, or with a piece put in."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from((1, 2, 8, 100))))
        before, part, after = content[:start], content[start:end], content[end:]
        content = before + draw(
            st.sampled_from((b"", part + part))
            | st.sampled_from(PIECES).map(lambda piece, part=part: piece + part)
            | st.sampled_from(PIECES)
            | st.binary(min_size=len(part), max_size=len(part))
        )
        content += draw(st.sampled_from((after, after, after, b"")))
    return content


ENGLISH = b"the red house\na bird\n\ncalm lamps shine at night .\nthe key of 3 boats\n"
FRENCH = "la maison rouge\nun oiseau\n\nles lampes calmes brillent\nla clé de 3 bateaux\n".encode()
ALIGNMENTS = b"".join(
    json.dumps({"id": i, "score": -0.5, "source": ["a", "</s>"], "target": ["b", "</s>"],
                "weights": [[0.25, 0.75], [0.5, 0.5]]}).encode() + b"\n" for i in range(2)
)  # fmt: skip


def text(folder):
    return check_parallel(folder / "text.en", folder / "text.fr")


def text_again(folder):
    """As fairseq reads it: text mode, line by line."""
    for name in ("text.en", "text.fr"):
        with (folder / name).open(encoding="utf-8") as file:
            yield sum(1 for _ in file)


def dictionary(folder):
    read_dictionary(folder / "dict.en.txt")
    return Dictionary.load(str(folder / "dict.en.txt")).symbols[4:]


def dictionary_again(folder):
    lines = (folder / "dict.en.txt").read_bytes().decode().replace("\r\n", "\n").split("\n")
    for line in filter(None, lines):
        yield re.fullmatch(r"(.*) -?\d+( #fairseq:overwrite)?\s*", line, re.S)[1]


def links(folder):
    return read_links(folder / "links", "pharaoh").links


def links_again(folder):
    lines = (folder / "links").read_bytes().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    for line in lines[:-1] if not lines[-1] else lines:
        yield {tuple(map(int, re.split("[-p]", link))) for link in line.split()}


def alignments(folder):
    found = read_alignments(folder / "alignments.jsonl")
    if sum(one.weights.size for one in found.values()) < 10_000:
        write_gallery(folder, found.values(), ("html",))
        assert (folder / "index.html").read_text(encoding="utf-8").count("<script") == 2
    return {number: _values(one) for number, one in found.items()}


def alignments_again(folder):
    content = (folder / "alignments.jsonl").read_text(encoding="utf-8")
    found = {}
    for entry in map(json.loads, filter(str.strip, content.split("\n"))):
        source, target, number = entry["source"], entry["target"], entry["id"]
        weights = np.array(entry["weights"], float).reshape(len(target), len(source))
        found[number] = _values(Alignment(source, target, weights, number, entry.get("score")))
    return {number + (0 in found): one for number, one in found.items()}


def _values(one):
    return repr((one.source, one.target, one.weights.tolist(), one.score))


FILES = {
    "text": ({"text.en": ENGLISH, "text.fr": FRENCH}, text, text_again),
    "dictionary": ({"dict.en.txt": b"the 9\nred 8\nhouse 7\n"}, dictionary, dictionary_again),
    "links": ({"links": b"0-0 1-2 2-1\n0-0\n\n0-1 1-0\n"}, links, links_again),
    "alignments": ({"alignments.jsonl": ALIGNMENTS}, alignments, alignments_again),
}


many_examples = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@many_examples
@given(data=st.data())
@pytest.mark.parametrize("kind", FILES)
def test_it_is_read_rightly_or_refused_in_one_line(kind, data, tmp_path):
    files, read, read_again = FILES[kind]
    chosen = data.draw(st.sampled_from([*sorted(files), "none"]))
    for name, content in files.items():
        changed = data.draw(damaged(content)) if name == chosen else content
        (tmp_path / name).write_bytes(changed)
    try:
        found = read(tmp_path)
    except UserError as mistake:
        assert "\n" not in str(mistake) and str(tmp_path) in str(mistake) and chosen != "none"
        return
    again = read_again(tmp_path)
    again = again if isinstance(again, dict) else list(again)
    assert (found in again and len(set(again)) == 1) if kind == "text" else found == again
