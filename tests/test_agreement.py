"""--agreement: the weights of both directions joined before links are chosen."""

import json

import pytest
from test_aer import run

from fairseq_rnnsearch.align.symmetrisation import read_agreed_links
from fairseq_rnnsearch.commands.evaluate import main
from fairseq_rnnsearch.errors import UserError

END = "</s>"
# the first target word: the second model doubts what the first is sure of; one row ends sentences
THERE = [[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.0, 0.0, 1.0]]
BACK = [[0.2, 0.7, 0.1], [0.9, 0.05, 0.05], [0.0, 0.0, 1.0]]
# the first model is sure of the first target word and has no weight for the second
SURE = [[0.9, 0.1, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
UNSURE = [[0.05, 0.45, 0.5], [0.6, 0.4, 0.0], [0.0, 0.0, 1.0]]
CONTRARY = [[0.0, 0.5, 0.5], [0.85, 0.0, 0.15], [0.0, 0.0, 1.0]]


def jsonl(path, *sentences, words=("a b", "c d")):
    source, target = ([*side.split(), END] for side in words)
    lines = [
        {"id": number, "score": None, "source": source, "target": target, "weights": weights}
        for number, weights in enumerate(sentences)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


JOINED = [
    # alpha * beta' = [[.12, .27], [.35, .02]]: both directions link 0-1 and 1-0
    (THERE, BACK, "product", "intersection", "1-0 0-1"),
    # (alpha + beta') / 2 = [[.4, .6], [.6, .225]]
    (THERE, BACK, "mean", "union", "1-0 0-1"),
    # [[.045, .06], [0, 0]]
    (SURE, UNSURE, "product", "union", "0-0 1-0"),
    # [[.475, .35], [.225, .2]]
    (SURE, UNSURE, "mean", "intersection", "0-0"),
    # [[.45, .475], [.25, 0]]: not the larger of both
    (SURE, CONTRARY, "mean", "intersection", "1-0"),
]


@pytest.mark.parametrize(("there", "back", "agreement", "method", "joined"), JOINED)
def test_by_hand(there, back, agreement, method, joined, tmp_path, capsys):
    """Alone, the model of THERE links both target words with the first source word."""
    forward = jsonl(tmp_path / "there.jsonl", there)
    inverse = jsonl(tmp_path / "back.jsonl", back, words=("c d", "a b"))
    options = ("--forward", forward, "--inverse", inverse, "--method", method)
    main([str(option) for option in ("symmetrise", *options, "--agreement", agreement)])
    assert capsys.readouterr().out.strip() == joined


def test_target_words_choose_forward_and_source_words_back(tmp_path):
    there = jsonl(tmp_path / "there", [[0.6, 0.4, 0.0], [0.0, 0.0, 1.0]], words=("a b", "c"))
    back = jsonl(tmp_path / "back", [[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]], words=("c", "a b"))
    found = read_agreed_links("mean", {"forward": there, "inverse": back})
    assert [file.links for file in found.values()] == [[{(0, 0)}], [{(0, 0), (1, 0)}]]


def test_lines_in_any_order_and_a_blank_sentence(tmp_path):
    there = jsonl(tmp_path / "there.jsonl", THERE, SURE)
    back = jsonl(tmp_path / "back.jsonl", BACK, CONTRARY, words=("c d", "a b"))
    blank = {"id": 2, "score": None, "source": [END], "target": [END], "weights": [[1.0]]}
    for path in (there, back):
        lines = [json.dumps(blank), *reversed(path.read_text().splitlines())]
        path.write_text("\n".join(lines))
    found = read_agreed_links("mean", {"forward": there, "inverse": back})
    assert [len(file.links) for file in found.values()] == [3, 3]
    assert found["forward"].links[0] == {(1, 0), (0, 1)} and found["forward"].links[2] == set()


@pytest.mark.parametrize(
    ("of_there", "of_back", "words", "message"),
    [
        ([0, 1], [0], "a b", r"back\.jsonl has no sentence 2"),
        ([0, 2], [0, 2], "a b", r"there\.jsonl .* 2; align all"),
        ([0, 1, 2], [0, 1, 2], "a b e", "sentence 1 has 2 source words and 2 .* but 3 and 2 in"),
    ],
)
def test_sentences_that_do_not_fit_are_named(tmp_path, of_there, of_back, words, message):
    there = jsonl(tmp_path / "there.jsonl", *[THERE] * 3)
    back = jsonl(
        tmp_path / "back.jsonl", *[BACK + BACK[: len(words) // 5]] * 3, words=("c d", words)
    )
    for path, numbers in ((there, of_there), (back, of_back)):
        lines = path.read_text().splitlines()
        path.write_text("\n".join(lines[number] for number in numbers))
    with pytest.raises(UserError, match=message):
        read_agreed_links("mean", {"forward": there, "inverse": back})


def test_error_rate(tmp_path, capsys):
    (tmp_path / "gold").write_text("1-0 0-1\n")
    there = jsonl(tmp_path / "there.jsonl", THERE)
    back = jsonl(tmp_path / "back.jsonl", BACK, words=("c d", "a b"))
    options = ("--hypothesis", there, "--hypothesis-inverse", back, "--agreement", "product")
    rows = run(capsys, "aer", "--gold", tmp_path / "gold", *options, "--symmetrise", "union")
    assert rows["AER"].startswith("0.00%")
    with pytest.raises(UserError, match="--agreement needs --hypothesis-inverse"):
        run(capsys, "aer", "--gold", tmp_path / "gold", *options[:2], "--agreement", "mean")
