"""Where the WMT'14 recipe's text comes from: the table of archives, downloads, SGML."""

import gzip
import importlib
import io
import os
import sys

import pytest
from wmt14 import RECIPE, corpus, make_archives, packed, program, rows, serving, sgml

from fairseq_rnnsearch.errors import UserError

sys.path.insert(0, str(RECIPE))
download, extract, reader = map(importlib.import_module, ("download", "extract", "sgml"))
EUROPARL = "wmt13/training-parallel-europarl-v7.tgz"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The archives by path, and the table that describes them."""
    folder = tmp_path_factory.mktemp("archives")
    return make_archives(folder), download.read_table(folder / "archives.tsv")


# --- the table ----------------------------------------------------------------------------------


def test_test_sets_are_sacrebleus():
    from sacrebleu.dataset import DATASETS

    table = download.read_table()
    known = {"newstest2012": "wmt12", "newstest2013": "wmt13", "newstest2014": "wmt14/full"}
    for name, theirs in known.items():
        assert DATASETS[theirs].data[0].endswith(f"statmt.org/{table[name].path}")
        assert [table[name].checksum] == [f"md5:{digest}" for digest in DATASETS[theirs].md5]
        assert list(table[name].members) == DATASETS[theirs].langpairs["en-fr"]


# --- downloads ----------------------------------------------------------------------------------


def fetch(mirror, archive, folder, tries=2):
    download.fetch(archive, f"{mirror.address}/{archive.path}", folder, tries, wait=0)
    return folder / archive.name


def test_an_interrupted_download_goes_on(made, tmp_path):
    files, table = made
    content = files[EUROPARL]
    with serving(files) as mirror:
        mirror.cut = [100, 200, 10, 20]
        message = rf"v7\.tgz: .* have {len(content):,} bytes, found 100;"
        with pytest.raises(UserError, match=message):
            fetch(mirror, table["europarl-v7"], tmp_path, tries=1)
        assert [p.name for p in tmp_path.iterdir()] == ["training-parallel-europarl-v7.tgz.part"]
        path = fetch(mirror, table["europarl-v7"], tmp_path, tries=2)  # each brings something
        assert path.read_bytes() == content
        ranges = [None, *(f"bytes={begin}-" for begin in (100, 300, 310, 330))]
        assert [wanted for _, wanted in mirror.asked] == ranges
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_broken_off_run_left(made, tmp_path):
    """Whole, too long, or of a server without ranges."""
    files, table = made
    content, archive = files[EUROPARL], table["europarl-v7"]
    with serving(files) as mirror:
        for left, ranges in ((content, True), (content + b"x", True), (content[:50], False)):
            mirror.ranges = ranges
            (tmp_path / f"{archive.name}.part").write_bytes(left)
            assert fetch(mirror, archive, tmp_path).read_bytes() == content


def test_a_wrong_file_is_not_kept(made, tmp_path):
    files, table = made
    archive = table["europarl-v7"]
    wrong = bytes(len(files[EUROPARL]))
    with serving({EUROPARL: wrong}) as mirror:
        with pytest.raises(UserError, match=rf"v7\.tgz: .*, expected {archive.checksum}"):
            fetch(mirror, archive, tmp_path)
        mirror.files[EUROPARL] = wrong + b"!"
        with pytest.raises(UserError, match=rf"has {len(wrong) + 1:,} bytes"):
            fetch(mirror, archive, tmp_path)
        with pytest.raises(UserError, match=r"training-parallel-un\.tgz: .* answers 404"):
            fetch(mirror, table["un"], tmp_path)
    assert not list(tmp_path.iterdir())


def test_archives_that_are_there_are_used(made, tmp_path):
    files, table = made
    (tmp_path / "training-parallel-europarl-v7.tgz").write_bytes(files[EUROPARL])
    (tmp_path / "training-parallel-un.tgz").write_bytes(b"my own")
    rows = [[a.corpus, a.path, a.name, str(a.size), a.checksum, *a.members] for a in table.values()]
    with serving(files) as mirror:
        command = ["download", "--out", tmp_path, "--mirror", mirror.address]
        command += ["--table", tmp_path / "table", "europarl-v7", "un"]
        assert "No such file" in program(*command).error()
        (tmp_path / "table").write_text("".join("\t".join(row) + "\n" for row in rows))
        program(*command).ok()
    assert not mirror.asked
    assert (tmp_path / "training-parallel-un.tgz").read_bytes() == b"my own"


# --- archives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [row[0] for row in rows()])
def test_either_side_of_each_archive(made, tmp_path, name):
    files, table = made
    (tmp_path / table[name].name).write_bytes(files[table[name].path])
    outputs = io.BytesIO(), io.BytesIO()
    pairs = extract.add_archive(table[name], tmp_path, outputs, tmp_path)
    sides = [out.getvalue().decode().split("\n")[:-1] for out in outputs]
    assert [len(side) for side in sides] == [pairs, pairs]
    if name in ("giga-fren", "un"):
        assert tuple(sides) == corpus(name)
    assert [p.name for p in tmp_path.iterdir()] == [table[name].name]


def sides(english, french=b"c\n", compress=True):
    return packed({ENGLISH: english, FRENCH: french}, compress)


ENGLISH, FRENCH = (f"training/europarl-v7.fr-en.{language}" for language in ("en", "fr"))
# in gzip's format, but as it is: a changed byte can only be found by its checksum
STORED = gzip.compress(sides(b"a\n", b"b\n", False), compresslevel=0)
TEXT = os.urandom(4000).hex().encode() + b"\n"
BROKEN = "broken or not whole"
LINK = "europarl-v7.fr-en.en' is a link"
HOSTILE = {
    "a link": (packed({}, True, {ENGLISH: "/etc/passwd"}), LINK),
    "paths that climb": (
        packed({f"../{ENGLISH}": b"a\n", "/tmp/x": b""}, True),
        "holds no training/europarl-v7.fr-en.en and no training",
    ),
    "one side": (packed({ENGLISH: b"a\n"}, True), f"holds no {FRENCH}$"),
    "truncated": (packed({ENGLISH: TEXT}, True)[:3000], BROKEN),
    "one bit of the text": (STORED.replace(b"b\n", b"c\n"), f"{BROKEN}: CRC"),
    "no archive": (b"<html>404</html>" * 99, BROKEN),
    "sides of two lengths": (sides(b"a\nb\n"), r"fr-en.en has 2 lines but .*fr-en.fr has 1 line;"),
    "no line": (sides(b"", b""), "fr-en.en is empty"),
    "truncated, not packed": (sides(TEXT, TEXT, False)[:12_000], rf"\(12,000 bytes\) is {BROKEN}"),
    "half a gzip file": (sides(gzip.compress(TEXT)[:2000]), f"fr-en.en is {BROKEN}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_broken_archives(made, tmp_path, name):
    content, message = HOSTILE[name]
    archive = made[1]["europarl-v7"]
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / archive.name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        extract.add_archive(archive, folder, (io.BytesIO(), io.BytesIO()), folder)
    assert archive.name in str(caught.value) and "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.rglob("*")] == ["in", archive.name]


def test_files_of_ones_own(tmp_path):
    def lay_out(out, *files):
        return program("extract", "--out", tmp_path / out, "--files", *files)

    (tmp_path / "a.en").write_bytes(b"a\nb")
    (tmp_path / "a.fr.gz").write_bytes(gzip.compress(b"c\nd\n"))
    (tmp_path / "b.sgm").write_bytes(sgml("srcset", ["e", "f"]))
    one, two = f"{tmp_path}/a.en:{tmp_path}/a.fr.gz", f"{tmp_path}/b.sgm:{tmp_path}/b.sgm"
    lay_out("out", one, two).ok()
    assert (tmp_path / "out/text.en").read_bytes() == b"a\nb\ne\nf\n"
    assert (tmp_path / "out/text.fr").read_bytes() == b"c\nd\ne\nf\n"
    assert f"{tmp_path}/none" in lay_out("out-none", f"{tmp_path}/a.en:{tmp_path}/none").error()


# --- SGML ---------------------------------------------------------------------------------------


def segments(folder, text):
    (folder / "a.sgm").write_text(text, encoding="utf-8")
    return reader.read_segments(folder / "a.sgm")


def test_entities_and_layout(tmp_path):
    found = segments(
        tmp_path,
        "<!DOCTYPE x>\n<refset trglang=fr setid='s'>\n<DOC docid=\"a&amp;b\" sysid='ref'><hl>\n"
        "<seg id=1>  R&amp;D &quot;x&quot;\n of AT&T &lt;b&gt; a<b &eacute;&#233;&#xE9; </seg></hl>"
        '<p><seg id="2">?a=1&copy=2 &amp;amp; &nosuch;</seg></p></doc><doc docid=c>'
        "<seg id='1'></seg></doc></refset>",
    )
    assert found == {
        ("a&b", 1): 'R&D "x" of AT&T <b> a<b ééé',
        ("a&b", 2): "?a=1&copy=2 &amp; &nosuch;",
        ("c", 1): "",
    }


DOC = '<doc docid="d">{}</doc>'
BROKEN_SGML = {
    "a lost segment": (DOC.format('<seg id="1">a</seg><seg id="3">b</seg>'), "3 of d where 2"),
    "no end": (DOC.format('<seg id="1">a<seg id="2">b</seg>'), "segment 1 of d is not ended"),
    "a cut document": ('<doc docid="d"><seg id="1">a</seg>', "document d is not ended"),
    "nothing": ("<srcset></srcset>", "has no <seg>"),
    "twice": (DOC.format('<seg id="1">a</seg>') * 2, "a second document d"),
}


@pytest.mark.parametrize("name", BROKEN_SGML)
def test_broken_sgml_is_named(tmp_path, name):
    text, message = BROKEN_SGML[name]
    with pytest.raises(UserError, match=message):
        segments(tmp_path, text)


def test_sides_that_do_not_match(tmp_path):
    (tmp_path / "a.sgm").write_bytes(sgml("srcset", [*"abcd"]))
    (tmp_path / "b.sgm").write_bytes(sgml("refset", [*"abc"]))
    with pytest.raises(UserError, match=r"b\.sgm lacks segment 2 of d0"):
        reader.read_pair(tmp_path / "a.sgm", tmp_path / "b.sgm")
    one, two = ('<doc docid="{}"><seg id="1">{}</seg></doc>'.format(*x) for x in ("aA", "bB"))
    (tmp_path / "a.sgm").write_text(one + two)
    (tmp_path / "b.sgm").write_text(two + one)
    with pytest.raises(UserError, match=r"b\.sgm has segment 1 of b where .*a\.sgm has 1 of a"):
        reader.read_pair(tmp_path / "a.sgm", tmp_path / "b.sgm")
