"""The recipe that changes one ingredient at a time: arms, table and choice of sentences."""

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import ROOT, run_process, write_text
from fairseq.models import MODEL_REGISTRY
from models import SOURCES, build_model, padded, random_model
from sacrebleu.metrics import BLEU
from scipy.stats import t as students_t
from torch.testing import assert_close

from fairseq_rnnsearch.errors import UserError

sys.path.insert(0, str(ROOT / "recipes" / "ablations"))

import arms  # noqa: F401  registers the architectures
import longest_third
import runs
import table


def model(arm):
    return random_model(kind=MODEL_REGISTRY[arm])


def encoded(arm, sources, left=False):
    x = padded(sources, left)
    return model(arm).encoder(x).source


def test_the_forward_encoder_does_not_look_ahead():
    short, long = encoded("forward_encoder", [[5, 9]]), encoded("forward_encoder", [[5, 9, 7, 2]])
    assert short.annotations.shape == (1, 2, 5)
    assert_close(long.annotations[:, :2], short.annotations)
    assert_close(long.summary, long.annotations[:, -1])


def test_the_readout_is_tanh_of_one_number_each():
    readout = model("tanh_readout").decoder.readout
    s, y, c = (torch.randn(4, w.size(1)).double() for w in
               (readout.state_weight, readout.word_weight, readout.context_weight))  # fmt: skip
    parts = zip((s, y, c), list(readout.parameters())[:3], strict=True)
    sums = sum(x.numpy() @ w.detach().numpy().T for x, w in parts)
    expected = np.tanh(sums + readout.bias.detach().numpy())
    assert expected.shape == (4, 3)
    assert_close(readout(s, y, c), torch.tensor(expected))


@pytest.mark.parametrize("left", [False, True])
def test_s_0_is_from_the_mean_of_the_annotations_without_padding(left):
    decoder = model("start_from_mean").decoder
    s_0 = decoder.initial_state(encoded("start_from_mean", SOURCES, left)).detach().numpy()
    W, b = (p.detach().numpy() for p in (decoder.initial_weight, decoder.initial_bias))
    for row, sentence in zip(s_0, SOURCES, strict=True):
        alone = encoded("start_from_mean", [sentence]).annotations[0].detach().numpy()
        np.testing.assert_allclose(row, np.tanh(W @ alone.mean(0) + b), rtol=1e-12)


def test_s_0_is_zero_and_stays_zero():
    built = build_model(kind=MODEL_REGISTRY["start_from_zero"])
    x = padded(SOURCES)
    network = built.decoder
    assert not network.initial_state(built.encoder(x).source).any()
    assert not network.initial_weight.requires_grad and not network.initial_bias.requires_grad


def test_resetting_after_the_product_is_torchs_own_unit():
    """``torch.nn.GRU`` has this order; its z keeps the old state, where ours replaces it."""
    unit = model("reset_after").decoder.unit
    n, h = unit.hidden_size, torch.randn(3, unit.hidden_size).double()
    proposed, update, reset = torch.randn(3, 3 * n).double().split(n, dim=1)
    cell = torch.nn.GRUCell(3 * n, n, bias=False).double()
    U, U_z, U_r = unit.recurrent_proposed, *unit.recurrent_gates.chunk(2)
    with torch.no_grad():  # its rows are [reset, keep, proposed]
        cell.weight_ih.copy_(torch.eye(3 * n))
        cell.weight_hh.copy_(torch.cat((U_r, -U_z, U)))
    given = torch.cat((reset, -update, proposed), dim=1)
    assert_close(unit.step(torch.cat((proposed, update, reset), dim=1), h), cell(given, h))


# --- the table ----------------------------------------------------------------------------------


def test_differences_are_a_linear_models():
    """Regression on one indicator an arm gives the same differences and their standard errors."""
    scores = [np.array(x) for x in ([55.0, 57.1, 56.0], [58.1, 58.9, 58.6], [56.5, 56.9])]
    y = np.concatenate(scores)
    x = np.zeros((8, 3))
    x[:, 0], x[3:6, 1], x[6:, 2] = 1, 1, 1
    coefficients = np.linalg.lstsq(x, y, rcond=None)[0]
    residual = ((y - x @ coefficients) ** 2).sum() / (8 - 3)
    errors = np.sqrt(np.diag(residual * np.linalg.inv(x.T @ x)))
    half = students_t.ppf(1 - 0.05 / 2 / 2, 5) * errors
    found = table.differences(scores)
    assert [one.mean for one in found] == pytest.approx(coefficients[1:])
    for one, mean, reach in zip(found, coefficients[1:], half[1:], strict=True):
        assert one.interval == pytest.approx((mean - reach, mean + reach))
    assert [one.interval for one in table.differences([x[:1] for x in scores])] == [None, None]


@pytest.fixture
def record(tmp_path):
    """A record of two arms, of which the second is worse, and better at the higher rate."""
    valid = {("first", "0.1"): 50, ("second", "0.1"): 40, ("second", "0.02"): 30}
    found = [
        runs.Run(arm, rate, seed, 30, 6_468_725, 5.25, score + seed, score + seed + 1.5)
        for (arm, rate), score in valid.items()
        for seed in (1, 2)
    ]
    runs.add(tmp_path / "runs.tsv", found)
    return tmp_path / "runs.tsv"


def run_main(module, command, monkeypatch):
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, command)])
    module.main()


def test_arms_are_compared_at_the_better_of_their_rates(record, capsys, monkeypatch):
    second = ["--arms", "second", "--seeds", 1, 2]
    run_main(table, [record, *second, "--best-rate"], monkeypatch)
    assert capsys.readouterr().out == "0.1\n"
    out = record.parent / "out"
    command = [record, "--arms", "first", "second", "--seeds", 1, 2, "--out", out]
    run_main(table, command, monkeypatch)
    rows = [line.strip("| ").split("|") for line in capsys.readouterr().out.splitlines()[2:]]
    first, second = ([cell.strip() for cell in row] for row in rows)
    assert first[:6] == ["first", "6.47", "0.1", "5.250", "51.5", "51.0 52.0"]
    assert second[2] == "0.1" and second[6] == "−10.0" and second[4] == "41.5"
    assert (out / "ablations.svg").exists() and (out / "ablations.md").exists()


# --- the record ---------------------------------------------------------------------------------


REFERENCE = ["un chien court vite .", "deux hommes parlent ici ."]


@pytest.fixture
def folder(tmp_path):
    """What a training leaves whose translations of the test set are half right, in upper case."""
    run = tmp_path / "run"
    (run / "logs").mkdir(parents=True)
    (run / "logs" / "train.log").write_text(
        "x | num. shared model params: 1 (num. trained: 6,468,725)\n"
        "y | valid on 'valid' subset | loss 2 | nll_loss 5.5 | ppl 3\n"
        "y | valid on 'valid' subset | loss 2 | nll_loss 5.25 | ppl 3\n"
        "y | valid on 'valid' subset | loss 2 | nll_loss 5.75 | ppl 3\n"
    )
    for split, begin, right in (("valid", "valid-", 2), ("test", "", 1)):
        (tmp_path / f"{split}.fr").write_text("".join(f"{x}\n" for x in REFERENCE))
        translations = run / f"{begin}translations-best-beam3"
        translations.mkdir()
        lines = REFERENCE[:right] + ["rien du tout , non ."] * (2 - right)
        (translations / "tokens.fr").write_text("".join(f"{x.upper()}\n" for x in lines))
    return run


def test_a_training_is_recorded(folder, tmp_path, monkeypatch):
    record = tmp_path / "runs.tsv"
    command = ["add", record, "--updates", 30, "--arm", "lstm", "--rate", "0.10", "--seed", 7]
    command += ["--run", folder, "--references", tmp_path]
    for _ in range(2):  # the second time changes nothing
        run_main(runs, command, monkeypatch)
        header, line = record.read_text().splitlines()
    assert header == "arm\trate\tseed\tupdates\tparameters\tbits\tvalid\ttest"
    *begin, test = line.split("\t")
    assert begin == "lstm 0.10 7 30 6468725 5.25 100.0".split()
    right = ["un chien court vite .", "rien du tout , non ."]
    score = BLEU(tokenize="none").corpus_score(right, [REFERENCE]).score
    assert test == f"{round(score, 2)}"


def test_runs_from_elsewhere_come_in_once(record, tmp_path, monkeypatch):
    here = tmp_path / "here.tsv"
    mine = runs.Run("first", "0.1", 2, 30, 6_468_725, 5.0, 90.0, 91.0)
    runs.add(here, [mine])
    for _ in range(2):
        run_main(runs, ["merge", here, "--updates", 30, record], monkeypatch)
        found = runs.read_runs(here)
        assert found[0] == mine and len(found) == len({run.name for run in found}) == 6


HEADER, RUN = "\t".join(runs.HEADER), "a\t1\t1\t60\t9\t5\t50\t50"
WRONG = {
    "arm\tseed": ", line 1: ",
    f"{HEADER}\n{RUN[:-3]}": ", line 2: ",
    f"{HEADER}\n{RUN}\n{RUN}1": ", line 3: .*a second time",
    f"{HEADER}\n{RUN}": ": a 1 1 was trained for 60 updates",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_record_is_one_line(text, tmp_path):
    other = tmp_path / "other.tsv"
    other.write_text(f"{text}\n")
    with pytest.raises(UserError, match=f"other.tsv{WRONG[text]}"):
        runs.merge(tmp_path / "runs.tsv", other, 30)
    assert not (tmp_path / "runs.tsv").exists()


# --- long sentences -----------------------------------------------------------------------------


def test_the_longest_third_keeps_its_order(tmp_path, monkeypatch):
    english = ["a", "a b c", "a b", "a b c d", "a", "a"]
    for split in ("train", "val", "test"):
        for side, lines in (("en", english), ("fr", range(6))):
            with gzip.open(tmp_path / f"{split}.{side}.gz", "wt") as file:
                file.writelines(f"{line}\n" for line in lines)
    monkeypatch.setattr(sys, "argv", f"x --folder {tmp_path} --out {tmp_path / 'out'}".split())
    longest_third.main()
    assert (tmp_path / "out" / "valid.fr").read_text() == "1\n3\n"
    assert (tmp_path / "out" / "train.en").read_text() == "a b c\na b c d\n"


# --- the whole recipe ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_recipe_compares_arms_and_goes_on(tmp_path):
    if not (Path(sys.prefix) / "installed").exists():
        pytest.skip("the recipes make their own environment, and these tests run in another one")
    text = write_text(tmp_path / "text", train=360, valid=60, test=60)
    (text / "valid.en").rename(text / "val.en")
    (text / "valid.fr").rename(text / "val.fr")
    sizes = dict.fromkeys(("EMBEDDING", "HIDDEN", "ATTENTION", "MAXOUT"), "24")
    settings = {
        **{"CORPUS": "long", "LONG_DIR": str(text), "WORK": str(tmp_path / "work"), **sizes},
        **{"VOCABULARY": "shortlist", "MIN_COUNT": "1", "BATCH_SIZE": "20", "UPDATES": "30"},
        **{"ARMS": "program reset_after", "SEEDS": "1 2", "LEARNING_RATES": "0.01"},
        **{"BEAM": "2", "OMP_NUM_THREADS": "1", "VENV": sys.prefix},
    }
    command = ["bash", ROOT / "recipes" / "ablations" / "run.sh"]
    first, again = (run_process(command, env=os.environ | settings, check=True) for _ in range(2))
    rows = [line.split("|") for line in first.stdout.splitlines() if line.startswith("| ")]
    assert [row[1].strip() for row in rows[2:]] == ["program", "reset_after"]
    assert all(len(row[6].split()) == 2 for row in rows[2:])  # a BLEU for each seed
    assert len(list((tmp_path / "work" / "arms").glob("*/rate-*/seed-*"))) == 4
    assert again.stderr.count("already recorded") == 4
    assert first.stdout.endswith(again.stdout)  # before it, the first has told of its epochs
    settings |= {"WORK": str(tmp_path / "other"), "KNOWN_RUNS": str(tmp_path / "work" / "runs.tsv")}
    known = run_process(command, env=os.environ | settings)
    assert known.stdout == again.stdout and not (tmp_path / "other" / "arms").exists()
