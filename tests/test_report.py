"""The commands of the report: what they print and write, and the mistakes they name."""

import argparse
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from reporting import paper
from reporting.__main__ import main
from reporting.sentences import known_sentences, read_known_words
from reporting.tables import escaped
from sacrebleu.metrics import BLEU, CHRF

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import Alignment, write_gallery

SOURCE = ["a man rides a horse .", "the zebra sleeps .", "one two three four five six .", "a man ."]
REFERENCE = "un homme monte un cheval ._le zèbre dort ._un deux trois quatre cinq six ._un homme ."
REFERENCE = REFERENCE.split("_")
FIRST = ["un homme monte un cheval .", "le <unk> dort .", "un deux trois quatre six .", "homme ."]
SECOND = ["un homme monte .", "le zèbre dort .", "un deux quatre cinq six .", "un homme ."]
EVIL = "<script>alert('x')</script> | *a* `b` $c$ ]]> {{style}} &amp;"
LOG = """2026-11-21 10:00:00 | INFO | fairseq_cli.train | Start iterating over samples
2026-11-21 10:30:00 | INFO | train_inner | epoch 001: 5 / 9 nats_per_sentence=40.5, num_updates=5
"""


@pytest.fixture
def files(tmp_path):
    """Return the paths of the inputs by name."""
    texts = {
        "source": SOURCE,
        "reference": REFERENCE,
        "first": FIRST,
        "second": SECOND,
        "dict.en": [f"{w} 3" for w in sorted({w for s in SOURCE for w in s.split()} - {"zebra"})],
        "dict.fr": sorted({word for line in REFERENCE for word in line.split()} - {"zèbre"}),
        "no-unk": ["un homme monte un cheval .", "un deux trois quatre cinq six .", "homme ."],
        "evil": [EVIL] * 4,
        "log": LOG.splitlines(),
    }
    paths = {}
    for name, lines in texts.items():
        paths[name] = tmp_path / name
        paths[name].write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    alignment = Alignment(("a", "b", "c", "</s>"), ("x", EVIL, "\x01"), np.full((3, 4), 0.25), id=7)
    write_gallery(tmp_path, [alignment, Alignment((), (), np.zeros((0, 0)), id=9)], ["jsonl"])
    paths["alignments"] = tmp_path / "alignments.jsonl"
    return paths


def texts(files, **systems):
    options = ["--source", files["source"], "--reference", files["reference"]]
    for name, path in (systems or {"first": files["first"], "second": files["second"]}).items():
        options += ["--system", f"{name}={path}"]
    return options


def dictionaries(files):
    return ["--source-dictionary", files["dict.en"], "--target-dictionary", files["dict.fr"]]


def run(capsys, *arguments):
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def rows(printed):
    """Return the cells of all Markdown tables, row by row."""
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def sacrebleu(hypotheses, references, tokenize="none", decimals=2, by=None):
    metric = by() if by else BLEU(tokenize=tokenize, force=True)
    return f"{metric.corpus_score(hypotheses, [references]).score:.{decimals}f}"


# --- Table 1 ------------------------------------------------------------------------------------


def test_bleu_of_all_and_of_the_sentences_without_unknown_words(files, capsys):
    """Sentence 1 has "zebra" and "zèbre", which the dictionaries lack."""
    options = ["--system-no-unk", f"first={files['no-unk']}", "--paper", "first=RNNsearch-50"]
    options += ["--paper-rows", "show"]
    options += ["--reference-detokenised", files["reference"]]
    options += ["--system-detokenised", f"second={files['second']}", "--resamples", 50]
    printed = run(capsys, "bleu", *texts(files), *dictionaries(files), *options)
    kept = [0, 2, 3]
    subset = [REFERENCE[i] for i in kept]
    no_unk = files["no-unk"].read_text(encoding="utf-8").splitlines()
    of_bleu, _, of_others, of_detokenised, *_ = map(rows, printed.split("\n\n**"))
    table, others, detokenised = (
        {row[0]: row for row in found[2:]} for found in (of_bleu, of_others, of_detokenised)
    )
    assert "4 sentences, 3 of them without unknown words" in printed
    # name; of all: BLEU, interval, paper, reproduction; of the subset: the first three again
    first, second = table["first"], table["second"]
    assert [first[1], first[5]] == [sacrebleu(FIRST, REFERENCE), sacrebleu(no_unk, subset)]
    assert [first[3], first[4], first[7]] == ["*26.75*", "–", "*34.16*"]
    cells = dict(zip(of_others[0], others["first"], strict=True))
    for kind, scored in {"All": (FIRST, REFERENCE), "No UNK": (no_unk, subset)}.items():
        assert cells[f"{kind}: chrF"] == sacrebleu(*scored, decimals=1, by=CHRF)
        low, high = map(float, cells[f"{kind}: 95% interval"].split("–"))
        assert low <= float(cells[f"{kind}: chrF"]) <= high and low < high
    assert second[1] == sacrebleu(SECOND, REFERENCE)
    assert second[5] == sacrebleu([SECOND[i] for i in kept], subset)
    assert [second[3], second[7]] == ["–", "–"]
    theirs = ["–", "–", "*33.30*", "–", "–", "–", "*35.63*"]
    assert table["*Moses (paper)*"] == ["*Moses (paper)*", *theirs]
    assert table["*RNNsearch-50\\* (paper)*"][3:5] == ["*28.45*", "*29.2*"]
    assert table["*RNNsearch-50\\*, Adam (Berard 2018)*"][3:5] == ["–", "*29.9*"]
    assert "*RNNsearch-50 (paper)*" not in table
    for tokeniser in ("none", "13a"):
        assert f"BLEU|nrefs:1|bs:50|seed:12345|case:mixed|eff:no|tok:{tokeniser}|" in printed
    assert "chrF2|nrefs:1|bs:50|seed:12345|" in printed
    assert detokenised["second"][1] == sacrebleu(SECOND, REFERENCE, "13a")
    assert detokenised["first"][1] == "–"


def test_a_no_unk_file_of_all_sentences_is_cut_to_the_subset(files, capsys):
    options = [*texts(files), *dictionaries(files), "--resamples", 5]
    whole = run(capsys, "bleu", *options, "--system-no-unk", f"first={files['second']}")
    plain = run(capsys, "bleu", *texts(files, first=files["second"]), *options[-6:])
    assert rows(whole)[2][3] == rows(plain)[2][3]
    assert rows(whole)[2][1] != rows(plain)[2][1]


def test_differences_are_those_to_the_baseline(files, capsys):
    printed = run(capsys, "bleu", *texts(files), "--baseline", "second", "--resamples", 50)
    assert "It compares the translations of two trained models" in printed
    (difference,) = rows(printed.split("difference to second")[1].split("**chrF")[0])[2:]
    whole = float(sacrebleu(FIRST, REFERENCE)) - float(sacrebleu(SECOND, REFERENCE))
    assert difference[0] == "first"
    assert float(difference[1].replace("−", "-")) == pytest.approx(whole, abs=0.011)


def test_several_references(files, capsys):
    options = [*texts(files), "--reference", files["second"], "--resamples", 5]
    printed = run(capsys, "bleu", *options)
    metric = BLEU(tokenize="none", force=True)
    expected = metric.corpus_score(FIRST, [REFERENCE, SECOND]).score
    assert rows(printed)[2][:2] == ["first", f"{expected:.2f}"]
    assert rows(printed)[3][1] == "100.00"  # it is a reference itself
    assert "BLEU|nrefs:2|" in printed and "chrF2|nrefs:2|" in printed


NEWSTEST2014 = [*paper.LONG_SENTENCES, "a man ."]


@pytest.mark.parametrize(
    ("source", "options", "shown", "further"),
    [
        (SOURCE, "", False, False),
        (NEWSTEST2014, "", True, True),
        (SOURCE, "--paper-rows show", True, True),
        (NEWSTEST2014, "--paper rnnsearch_50=none", True, True),
    ],
)
def test_the_papers_rows_are_those_of_its_test_set(files, capsys, source, options, shown, further):
    """They stand beside ours where the test set is newstest2014 or the user says so."""
    files["source"].write_text("".join(f"{line}\n" for line in source))
    given = [*texts(files, rnnsearch_50=files["first"]), "--resamples", 5, *options.split()]
    table = rows(run(capsys, "bleu", *given))
    assert ("All: paper" in table[0]) == shown
    assert ("*Moses (paper)*" in [row[0] for row in table]) == further
    assert ("*26.75*" in table[2]) == (shown and "none" not in options)


def test_known_sentences_and_dictionaries(tmp_path):
    path = tmp_path / "dict"
    path.write_text("a 12\n1984\nb\n<unk> 3 #fairseq:overwrite\n1985 1\n")
    words = read_known_words(path)
    assert words == {"a", "1984", "b", "<unk>", "1985"}
    source, reference = ["a b", "a c", "1984", "", "12"], ["x", "x", "x y", "", "x"]
    known = known_sentences(source, [reference], words, frozenset("x"))
    assert known.tolist() == [True, False, False, True, False]
    several = [reference, ["y", "x", "x", "x", "x"]]  # each of them must be known
    known = known_sentences(source, several, words, frozenset("x"))
    assert known.tolist() == [False, False, False, True, False]


def test_a_dictionary_of_subwords_tells_nothing_of_words():
    words, pieces = frozenset("ab"), frozenset(["a", "b@@"])
    for side, given in {"source": (pieces, words), "target": (words, pieces)}.items():
        with pytest.raises(UserError, match=f"--{side}-dictionary .* b@@"):
            known_sentences(["a b"], [["a b"]], *given)
    assert known_sentences(["b@@ a"], [["b@@ a"]], pieces, pieces).tolist() == [True]


@pytest.mark.parametrize(
    ("bleu", "said"),
    [
        (29.204, "RNNsearch-50*: 29.20 lies within 29.2 ± 1"),
        (28.194, "RNNsearch-50*: 28.19 lies 0.01 below 29.2 ± 1"),
        (31.5, "RNNsearch-50*: 31.50 lies 1.30 above 29.2 ± 1"),
    ],
)
def test_whether_a_model_is_as_good_as_the_published_reproduction(bleu, said):
    names = ["RNNsearch-50*", "RNNsearch-50", "RNNsearch-50*, UNK by dictionary"]
    options = argparse.Namespace(paper=[], paper_rows="auto")
    shown = paper.rows_beside(options, names, is_its_test_set=True)
    assert [shown.reproduction(name) for name in names] == [29.2, None, 31.1]
    assert shown.verdict(names[0], bleu).startswith(said)
    assert shown.verdict(names[1], bleu) is None


@pytest.mark.parametrize(
    ("name", "row"),
    [("RNNsearch-50", "RNNsearch-50"), ("rnnsearch_50", "RNNsearch-50"), ("moses", "Moses")]
    + [("RNNsearch-50*", "RNNsearch-50*"), ("RNNenc-30", "RNNencdec-30"), ("Google", None)]
    + [("rnnencdec_30", "RNNencdec-30"), ("RNNsearch-50 BPE", None)],
)
def test_the_papers_row_of_a_name(name, row):
    assert paper.row_named(name) == row


# --- tables as text -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a_b _c_", "a_b \\_c\\_"), ("1 < 2 & <b>", "1 < 2 & &lt;b>"), ("&lt; &", "&amp;lt; &")]
    + [("two\nlines", "two lines"), ("# no head", "\\# no head"), ("1. no list", "1\\. no list")]
    + [("[a](b) `c`", "\\[a\\](b) \\`c\\`")],
)
def test_markdown_escapes(text, expected):
    assert escaped(text) == expected


# --- Figure 2 -----------------------------------------------------------------------------------


def test_lengths_command(files, capsys, tmp_path):
    figure = tmp_path / "l.svg"
    options = ["--bin-width", 3, "--longest", 6, "--fewest", 1, "--resamples", 5]
    printed = run(capsys, "lengths", *texts(files), *options, "--figure", figure)
    assert [row[:3] for row in rows(printed)[2:]] == [
        ["up to 3", "1", sacrebleu(FIRST[3:], REFERENCE[3:], decimals=1)],
        ["4 to 6", "2", sacrebleu(FIRST[:2], REFERENCE[:2], decimals=1)],
        ["over 6", "1", sacrebleu(FIRST[2:3], REFERENCE[2:3], decimals=1)],
    ]
    assert figure.read_text().startswith("<?xml")


# --- Figure 3 and Table 3 -------------------------------------------------------------------------


def test_long_sentences_are_chosen(files, capsys):
    long = " ".join(["word"] * 30)
    files["source"].write_text(f"{long}\nshort\n{long}\n{long} x\n")
    assert "Sentence 1" in (printed := run(capsys, "examples", *texts(files)))
    assert re.findall(r"Sentence (\d)", printed) == ["1", "3", "4"]
    tokenised = paper.LONG_SENTENCES[1].replace('"', " &quot; ").replace("'s", " &apos;s")
    files["source"].write_text(f"{long}\n{tokenised}\n{long}\n{long}\n")
    assert re.findall(r"Sentence (\d)", run(capsys, "examples", *texts(files))) == ["2"]


# --- the report -----------------------------------------------------------------------------------


def test_the_report_holds_every_part(files, capsys, tmp_path):
    options = [*texts(files, **{"RNNsearch-50": files["first"], EVIL: files["evil"]})]
    options += [*dictionaries(files), "--log", f"RNNsearch-50={files['log']}"]
    options += ["--alignments", f"RNNsearch-50={files['alignments']}", "--alignment-ids", "7"]
    options += ["--examples", "3", "--fewest", "1", "--resamples", "20", "--note", EVIL]
    options += ["--paper-rows", "show", "--title", EVIL, "--out", tmp_path / "out"]
    run(capsys, "report", *options)
    text = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "{" not in text.replace("{{style}}", ""), "a value that was not filled in"
    for part in ("Set-up", "Table 1", "Table 2", "Figure 2", "Figure 3", "Table 3", "Command"):
        assert f"## {part}" in text
    sentence = "un deux trois quatre six"
    for value in (sacrebleu(FIRST, REFERENCE), "26.75", "288,000", "40.5", sentence):
        assert value in text
    linked = re.findall(r"\]\((figures/.*?)\)", text)
    assert linked == ["figures/lengths.svg", "figures/alignment-0-0-7.svg"]
    for path in linked:
        ElementTree.parse(tmp_path / "out" / path)


# --- mistakes -------------------------------------------------------------------------------------

DICTIONARIES = "--source-dictionary dict.en --target-dictionary dict.fr"
JSONL = "--out o --alignments a=alignments.jsonl --alignment-ids"
MISTAKES = {
    # command, what is written to a file before, further options: what is named
    "fewer lines": ("bleu", ("first", b"a\n"), "", "first has 1 line but .* 4"),
    "not UTF-8": ("bleu", ("second", b"a\n\xff\nb\nc\n"), "", "second, line 2"),
    "unknown name": ("bleu", None, "--baseline x", "--baseline 'x'.* first,"),
    "a name twice": ("bleu", None, "--system first=x", "--system .*'first'"),
    "unknown row": ("bleu", None, "--paper first=x", "--paper first=x"),
    "no dictionaries": ("bleu", None, "--system-no-unk first=no-unk", "--source-dictionary"),
    "detokenised": ("bleu", None, "--system-detokenised first=a", "--reference-detokenised"),
    "no-UNK lines": (
        *("bleu", ("no-unk", b"a\n"), f"{DICTIONARIES} --system-no-unk first=no-unk"),
        "no-unk has 1 line; .* 4 sentences",
    ),
    "no dictionary": ("bleu", ("dict.fr", b"a b c\n"), DICTIONARIES, "dict.fr, line 1: .*'a b c'"),
    "an id too high": ("examples", None, "--examples 5", "no sentence 5; valid: 1 to 4"),
    "an unknown id": ("report", None, f"{JSONL} 8", "no sentence 8"),
    "no jsonl": ("report", ("alignments.jsonl", b"{}\n"), f"{JSONL} 8", "alignments.jsonl, line 1"),
    "nothing to draw": ("report", None, f"{JSONL} 9", "sentence 9 of alignments.jsonl"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(files, capsys, tmp_path, monkeypatch, case):
    command, written, options, message = MISTAKES[case]
    monkeypatch.chdir(tmp_path)
    if written:
        Path(written[0]).write_bytes(written[1])
    with pytest.raises(UserError, match=message):
        main([*map(str, [command, *texts(files)]), *options.split()])
    assert capsys.readouterr().out == "" and not Path("o").exists()
