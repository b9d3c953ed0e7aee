"""--agreement: the weights of both directions joined before links are chosen."""

import json

import pytest
from test_aer import run

from fairseq_rnnsearch.alignment.evaluation.__main__ import main
from fairseq_rnnsearch.errors import UserError

END = "</s>"
# the first target word: the second model doubts what the first is sure of; one row ends sentences
THERE = [[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.0, 0.0, 1.0]]
BACK = [[0.2, 0.7, 0.1], [0.9, 0.05, 0.05], [0.0, 0.0, 1.0]]


def jsonl(path, *sentences, words=("a b", "c d")):
    source, target = ([*side.split(), END] for side in words)
    lines = [
        {"id": number, "score": None, "source": source, "target": target, "weights": weights}
        for number, weights in enumerate(sentences)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def both(tmp_path):
    there = jsonl(tmp_path / "there.jsonl", THERE)
    return there, jsonl(tmp_path / "back.jsonl", BACK, words=("c d", "a b"))


JOINED = {
    # alpha * beta' = [[.12, .27], [.35, .02]]: both directions link 0-1 and 1-0
    ("product", "intersection"): "1-0 0-1",
    # (alpha + beta') / 2 = [[.4, .6], [.6, .225]]
    ("mean", "union"): "1-0 0-1",
}


@pytest.mark.parametrize(("agreement", "method"), JOINED)
def test_by_hand(agreement, method, both, capsys):
    """Alone, the first model links both target words with the first source word."""
    options = ("--forward", both[0], "--inverse", both[1], "--method", method)
    main([str(option) for option in ("symmetrise", *options, "--agreement", agreement)])
    assert capsys.readouterr().out.strip() == JOINED[agreement, method]


def test_error_rate(both, tmp_path, capsys):
    (tmp_path / "gold").write_text("1-0 0-1\n")
    options = ("--hypothesis", both[0], "--hypothesis-inverse", both[1], "--agreement", "product")
    rows = run(capsys, "aer", "--gold", tmp_path / "gold", *options, "--symmetrise", "union")
    assert rows["AER"].startswith("0.00%")
    assert "product of both" in rows["hypothesis"]
    with pytest.raises(UserError, match="--agreement needs --hypothesis-inverse"):
        run(capsys, "aer", "--gold", tmp_path / "gold", *options[:2], "--agreement", "mean")


def test_files_that_do_not_fit_are_refused(both, tmp_path, capsys):
    there, back = both
    options = ("--method", "union", "--agreement", "mean")
    for inverse, message in {
        there: r"sentence 0 has 2 source words and 2 target words .* but 3 and 2 in",
        back: r"back\.jsonl has no sentence 1, and .*there\.jsonl has it",
    }.items():
        jsonl(there, THERE, *([THERE] if inverse == back else []))
        if inverse == there:
            inverse = jsonl(tmp_path / "other", [*BACK, BACK[0]], words=("c d", "a b e"))
        with pytest.raises(UserError, match=message):
            run(capsys, "symmetrise", "--forward", there, "--inverse", inverse, *options)
    with pytest.raises(UserError, match="leave out --reverse"):
        run(capsys, "symmetrise", "--forward", there, "--inverse", back, *options,
            "--reverse", "inverse")  # fmt: skip
