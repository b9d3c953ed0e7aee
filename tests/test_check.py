"""`rnnsearch-check`: faults planted in other code are named, and faithful code is not accused."""

import itertools
import sys
from pathlib import Path

import numpy as np
import planted_model
import pytest
import torch
from authors import authors_params
from commands import ROOT, call, run_process
from oracles import numpy_rnnsearch as oracle
from slow_cases import cases
from torch import nn

from fairseq_rnnsearch import UserError, check
from fairseq_rnnsearch.conformance.__main__ import imported
from fairseq_rnnsearch.conformance.authors_numbers import PARTS, parameters
from fairseq_rnnsearch.conformance.catalogue import CATALOGUE
from fairseq_rnnsearch.conformance.variant_model import VariantModel

SOURCE = Path(planted_model.__file__).read_text()

SUMMARY = "summary = bwd[:, 0]"
SCORES = 'torch.einsum("bjk,k->bj", torch.tanh(query.unsqueeze(1) + keys), p["v_a"])'
MASKING = 'scores = scores.masked_fill(~mask, float("-inf"))\n        alpha = '

# name of the deviation, the text of planted_model.py, and what stands in its place
IN_ENCODER = [
    ("encoder-unmasked", "torch.where(keep[:, j, None], self.cell(side, words[:, j], h), h)",
     "self.cell(side, words[:, j], h)"),
    ("backward-left-to-right", "positions[::-1])", "positions)"),
    ("forward-only", "torch.cat([fwd, bwd]", "torch.cat([fwd, torch.zeros_like(bwd)]"),
    ("halves-exchanged", "torch.cat([fwd, bwd]", "torch.cat([bwd, fwd]"),
    ("start-zero", "first = torch.tanh(", "first = 0 * torch.tanh("),
    ("start-mean", SUMMARY, "summary = (bwd * mask[..., None]).sum(1) / mask.sum(1, True)"),
    ("start-forward", SUMMARY, "summary = fwd[:, -1]"),
    ("start-wrong-end", SUMMARY, "summary = bwd[range(4), mask.sum(1) - 1]"),
    ("weight-transposed", 'linear(summary, p["W_s"], p["b_s"])', 'summary @ p["W_s"] + p["b_s"]'),
    ("bias-lost", ' + p["b_x"]', ""),
]  # fmt: skip
IN_UNITS = [
    ("reset-after", 'linear(reset * h, p["U" + side])', 'reset * linear(h, p["U" + side])'),
    ("update-swapped", "lerp(h, candidate, update)", "lerp(candidate, h, update)"),
    ("no-reset", "linear(reset * h,", "linear(h,"),
    ("recurrent-transposed", 'linear(reset * h, p["U" + side])', '(reset * h) @ p["U" + side]'),
]
IN_STEP = [
    ("energies-no-tanh", "torch.tanh(query.unsqueeze(1) + keys)", "query.unsqueeze(1) + keys"),
    ("energies-dot", SCORES, 'torch.einsum("bk,bjk->bj", query, keys)'),
    ("energies-scaled-dot", SCORES,
     "torch.bmm(keys, query.unsqueeze(2)).squeeze(2) / query.shape[1] ** 0.5"),
    ("no-mask", 'scores.masked_fill(~mask, float("-inf"))', "scores"),
    ("mask-after", MASKING, "alpha = mask * "),
    ("mask-zero", 'float("-inf")', "1e-9"),
    ("softmax-over-batch", "scores.softmax(dim=1)", "scores.softmax(dim=0)"),
    ("encoder-unread", "return torch.bmm(", "return 0 * torch.bmm("),
    ("order-appendix", "consumed = self.word(y)", "consumed = self.word(y_prev)"),
    ("readout-from-next", "read = s\n", "read = new\n"),
    ("first-word", " * (y >= 0).unsqueeze(1)", ""),
    ("maxout-halves", "t[:, 0::2], t[:, 1::2]", "t[:, :6], t[:, 6:]"),
    ("maxout-replaced", "torch.maximum(t[:, 0::2], t[:, 1::2])", "torch.tanh(t[:, :6])"),
    ("readout-term-lost", 't = t + linear(context, p["C_o"])', "t = t + 0"),
    ("readout-sees-word", "read, self.word(y_prev)", "read, self.word(y)"),
    ("weight-transposed", 'linear(s, p["W_a"])', 's @ p["W_a"]'),
    ("output-over-batch", "softmax(dim=-1)", "softmax(dim=0)"),
    ("context-not-in-gates", 'p["C_z"], p["C_r"], p["C"]', '0 * p["C_z"], 0 * p["C_r"], p["C"]'),
]  # fmt: skip
ATTENDING = MASKING + "scores.softmax(dim=1)"
SUM = "return torch.bmm(alpha.unsqueeze(1), h).squeeze(1)"
MAXOUT = "torch.maximum(t[:, 0::2], t[:, 1::2])"
SIGMOID = ("softmax-replaced", ATTENDING, "alpha = scores.sigmoid() * mask")
MEAN = ("context-fixed", SUM, "return h.mean(1)")
REPLACED = [
    SIGMOID, MEAN,
    ("softmax-replaced", ATTENDING, "alpha = scores.sigmoid() * mask; alpha /= alpha.sum(1, True)"),
    ("softmax-replaced", ATTENDING, "alpha = scores.exp() * mask"),
    ("softmax-replaced", ATTENDING, "alpha = scores * mask"),
    ("softmax-replaced", "scores.softmax(dim=1)", "scores.softmax(1).softmax(1)"),
    ("weights-uniform", SUM, "return (h * mask[..., None]).sum(1) / mask.sum(1, True)"),
    ("maxout-replaced", MAXOUT, f"{MAXOUT}.relu()"),
    ("energies-replaced", "torch.tanh(query.unsqueeze(1)", "torch.relu(query.unsqueeze(1)"),
    ("energies-replaced", "query.unsqueeze(1) + keys", "query.unsqueeze(1) * keys"),
    ("energies-replaced", SCORES, '((query.unsqueeze(1) + keys) @ p["v_a"]).tanh()'),
    ("softmax-over-batch", "scores.softmax(dim=1)", "scores.exp() / scores.exp().sum()"),
    ("output-over-batch", ".softmax(dim=-1)", ".flatten().softmax(0).view(-1, 25)"),
    ("output-softmax-twice", ".softmax(dim=-1)", ".softmax(-1).softmax(-1)"),
    ("no-update", "return torch.lerp(h, candidate, update)", "return candidate"),
    ("bias-doubled", ' + p["b" + side]', ' + 2 * p["b" + side]'),
    ("reset-after", 'linear(reset * h, p["U" + side])',
     'reset * linear(h, p["U" + side], p["b" + side])'),
    ("embedding-scaled", 'embedding(y.clamp(min=0), self.p["E_y"]) + self.p["b_y"]',
     '8**0.5 * (embedding(y.clamp(min=0), self.p["E_y"]) + self.p["b_y"])'),
]  # fmt: skip
FAULTS = [
    *IN_ENCODER, *IN_UNITS, *IN_STEP, *REPLACED,
    ("mask-inverted", "masked_fill(~mask", "masked_fill(mask"),  # NaN, which hides a second fault
]  # fmt: skip


def planted(*faults):
    """The module with these faults in it."""
    text = SOURCE
    for _, old, new in faults:
        assert old in text
        text = text.replace(old, new)
    module = {}
    exec(compile(text, planted_model.__file__, "exec"), module)
    return module


# two faults that have a name together
TOGETHER = {
    frozenset({"reset-after", "update-swapped"}): {"torch-gru"},
    frozenset({"order-appendix", "readout-from-next"}): {"order-section3"},
}


def names(*faults):
    found = frozenset(name for name, _, _ in faults)
    return TOGETHER.get(found, set(found))


def test_the_model_without_changes_equals_the_authors_numbers():
    model = VariantModel(parameters(), {})
    for part in PARTS:
        report = check(getattr(model, part), part)
        assert report.ok and report.largest_error < 1e-13, report


def pairs_of(faults):
    """Every sixth pair of faults that replace different text."""
    pairs = itertools.combinations(faults, 2)
    return [(a, b) for a, b in pairs if b[1] not in a[1] and a[1] not in b[1]][::6]


PAIRS = [
    *pairs_of(IN_STEP),
    *pairs_of(IN_ENCODER),
    *zip(IN_UNITS, IN_STEP[8::3], strict=False),
    *zip(IN_UNITS, IN_ENCODER, strict=False),
]


@pytest.mark.slow
def test_planted_pairs_are_named():
    """Of 40 pairs 3 cannot be told: the numbers are those of one of the two alone."""
    named = {pair: check(planted(*pair)["Model"], framework="torch") for pair in PAIRS}
    assert len(named) == 40 and not any(report.ok for report in named.values())
    right = [pair for pair, report in named.items() if set(report.deviations) == names(*pair)]
    alone = [pair for pair, report in named.items() if set(report.deviations) < names(*pair)]
    assert (len(right), len(alone)) == (37, 3)


WHOLE = planted(IN_ENCODER[0], IN_STEP[8])["sentence"]
UNMOVED = planted(("", 's, y_prev = found["state"], word', "s, y_prev = begin, word"))
NAMED = [
    *((planted(fault)["Model"], {fault[0]}) for fault in FAULTS),
    (planted(SIGMOID, IN_UNITS[2])["Model"], {"softmax-replaced", "no-reset"}),
    (planted(MEAN, IN_UNITS[1])["Model"], {"context-fixed", "update-swapped"}),
    (planted(*IN_UNITS[:2])["Model"], {"torch-gru"}),
    (planted((*SIGMOID[:2], "alpha = (scores * mask).sigmoid()"))["Model"],
     {"softmax-replaced", "mask-zero"}),
    (planted((*SIGMOID[:2],
              "alpha = scores.sigmoid(); alpha = alpha / alpha.sum(1, True) * mask"))["Model"],
     {"softmax-replaced", "mask-after"}),
    (UNMOVED["sentence"], {"state-not-passed-on"}),
    (lambda p, x, mask, y, y_mask: WHOLE(p, x, mask, y, y_mask)[0],
     {"encoder-unmasked", "order-appendix"}),
    (lambda p, x, mask, y, y_mask: WHOLE(p, x, mask, y, y_mask)[0].sum(1),
     {"encoder-unmasked", "order-appendix"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "named"),
    NAMED,
    ids=lambda named: "-".join(sorted(named)) if isinstance(named, set) else "",
)
def test_planted_faults_are_named(code, named):
    part = None if isinstance(code, type) else "sentence"
    report = check(code, part, framework="torch")
    assert not report.ok and set(report.deviations) == named, report


def test_a_context_of_keys_is_named():
    report = check(lambda alpha, h, U_a: np.einsum("bj,bjc->bc", alpha, h @ U_a.T), "context")
    assert report.deviations == ("context-from-keys",)


# --- faithful code ------------------------------------------------------------------------------


def softmax(a):
    a = np.exp(a - a.max(-1, keepdims=True))
    return a / a.sum(-1, keepdims=True)


def by_oracle(x, y):
    """A sentence at a time, by the NumPy model with the authors' own parameters."""
    found = oracle.forward(authors_params(), x, y)
    return {
        **{"weights": found.alignment, "states": found.states[1:]},
        **{"word_log_probabilities": found.word_logprobs, "probabilities": found.next_logprobs},
    }


def time_first(p, x, mask):
    h, _ = planted_model.Model(p).encode(x.T, mask.T)
    assert mask[0].all()
    return h.transpose(0, 1)


class InSinglePrecision(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.attention = nn.Linear(12, 12, bias=False)
        self.attention.weight.data = p["W_a"].float()
        self.p = p

    def energies(self, s, h):
        return torch.tanh(self.attention(s)[:, None] + h @ self.p["U_a"].T) @ self.p["v_a"]


def returns_single(s, h, W_a, U_a, v_a):
    e = np.tanh(s[:, None] @ W_a.T + h @ U_a.T) @ v_a
    return (e + 3).astype(np.float32)[..., None]  # a constant, which the softmax drops


def logits(p, s, y_prev, c):
    words = planted_model.Model(p).word(y_prev)
    return planted_model.Model(p).predict(s, words, c).log() + 2


def costs(p, x, mask, y, y_mask):
    return -planted_model.sentence(p, x, mask, y, y_mask)[0].sum(1)


def side_by_side(p, s, y, c):
    """All gates and inputs in one product; the new state with an axis of layers."""
    x = np.concatenate([(p["E_y"] + p["b_y"])[y], s, c], 1)
    M = np.block([[p[m + g] for m in "WUC"] for g in ("_z", "_r")])
    z, r = np.split(1 / (1 + np.exp(-x @ M.T)), 2, axis=1)
    x[:, 8:20] *= r
    proposed = np.tanh(x @ np.block([p["W"], p["U"], p["C"]]).T + p["b"])
    return (s + z * (proposed - s))[None]


def step_as_a_tuple(p, s, y_prev, y, h, mask):
    model = planted_model.Model(p)
    found = model.step(s, y_prev, y, h, mask)
    return model.look(s, h, mask), found["state"], found["probabilities"]


class Attention(nn.Module):
    def __init__(self, W_a, U_a, v_a):
        super().__init__()
        self.W_a, self.U_a, self.v_a = W_a, U_a, v_a

    def forward(self, s, h, mask):
        e = torch.tanh((s @ self.W_a.T)[:, None] + h @ self.U_a.T) @ self.v_a
        return e.masked_fill(~mask, -np.inf).softmax(1)


def one_vector_at_a_time(s, h, W_a, U_a, v_a):
    return softmax(np.array([v_a @ np.tanh(W_a @ s + U_a @ column) for column in h]))


@pytest.mark.parametrize(
    ("code", "part", "framework", "said"),
    [
        (planted_model.Model, None, "torch", "batch first"),
        (planted_model.sentence, None, "torch", "batch first"),
        (planted_model.Model, "encode", "torch", "batch first"),
        (by_oracle, "sentence", "numpy", "one sentence at a time"),
        (time_first, "encode", "torch", "time first"),
        (InSinglePrecision, None, "torch", "float32"),
        (returns_single, "energies", "numpy", "energies"),
        (logits, "readout", "torch", "probabilities"),
        (costs, "sentence", "torch", "log_likelihood"),
        (side_by_side, "state", "numpy", "state"),
        (step_as_a_tuple, "step", "torch", "state"),
        (one_vector_at_a_time, "weights", "numpy", "without a batch axis"),
        (lambda alpha, h: alpha @ h, "context", "numpy", "padding was not tried: context"),
        (Attention, "weights", "torch", "batch first"),
    ],
)
def test_faithful_code_is_not_accused(code, part, framework, said):
    report = check(code, part, framework)
    assert report.ok and not report.deviations and report.largest_error < 2e-5, report
    assert said in str(report) and "equal to the authors' program" in str(report)


# --- what is said -------------------------------------------------------------------------------


def test_explanations_that_give_the_same_numbers_are_all_named():
    """Of the state alone one cannot tell the appendix's order from that of section 3."""
    model = planted(("", "reset * h", "h"))["Model"]

    def state(p, s, y_prev, c):
        return model(p).cell("", model(p).word(y_prev), s, c)

    report = check(state, framework="torch")
    assert set(report.deviations) == {"order-appendix", "no-reset"}
    assert "or no-reset (decoder) with order-section3, which gives the same" in str(report)


@pytest.mark.parametrize("name", cases(["v_a", "U_z_forward"]))
def test_another_parameter_is_not_taken_for_a_deviation(name):
    class Model(planted_model.Model):
        def __init__(self, p):
            super().__init__({**p, name: 1.05 * p[name]})

    report = check(Model, framework="torch")
    assert not report.ok and not report.deviations, report


RIGHT = VariantModel(parameters(), {})


def weights_of(s, h, mask, hidden=-np.inf, dtype=float, factor=1):
    e = factor * RIGHT.energies(s, h, mask)["energies"].astype(dtype).astype(float)
    return softmax(np.where(mask, e, hidden))


def annotations_of(x, mask):
    return RIGHT.encode(x, mask)["annotations"]


def backward_earlier(x, mask):
    h = annotations_of(x, mask)
    return np.concatenate([h[..., :12], np.roll(h[..., 12:], -1, 1)], 2)


def first_states(x, mask, y, y_mask):
    given = RIGHT.sentence(x, mask, y, y_mask)
    return {"states": np.concatenate([given["start"][:, None], given["states"][:, :-1]], 1)}


@pytest.mark.parametrize(
    ("code", "part", "said"),
    [
        (lambda s, h, mask: 3 * RIGHT.energies(s, h, mask)["energies"], "energies", "times 3"),
        (lambda s, h, mask: weights_of(s, h, mask, factor=2), "weights", "energies = the"),
        (lambda s, h, mask: weights_of(s, h, mask, hidden=-5), "weights", "padding gets up"),
        (lambda s, h, mask: np.log(weights_of(s, h, mask, -30)), "weights", "= log of the"),
        (lambda s, h, mask: weights_of(s, h, mask) - 0.1, "weights", "negative, down to -0.1"),
        (lambda s, h, mask: weights_of(s, h, mask) / 2, "weights", "times 0.5"),
        (lambda s, h, mask: weights_of(s, h, mask, dtype="f2"), "weights", "half precision"),
        (lambda s, h, mask: weights_of(s, h, mask[::-1]), "weights", "it is not: padding"),
        (lambda alpha, h, mask: (alpha[..., None] * h).sum(1) / mask.sum(1)[:, None], "context",
         "divided by the number of source words"),
        (backward_earlier, "encode", "the forward half is equal"),
        (lambda x: annotations_of(x.T.reshape(x.shape), x >= 0), "encode", "in a batch it is not"),
        (lambda x, mask: annotations_of(x, mask)[[1, 0, 2, 3]], "encode", "of other sentences"),
        (first_states, "sentence", "one target position later"),
        (lambda x, mask, y, y_mask: RIGHT.sentence(x, mask, y, y_mask)["log_likelihood"]
         / y_mask.sum(1), "sentence", "divided by the number of target words"),
        (lambda s: s + np.random.default_rng().normal(size=s.shape), "state", "two runs"),
        (lambda s, h, mask: softmax(
            RIGHT.energies(s, h, mask)["energies"] * np.where(mask, 1, 0.5)
        ), "weights", "one sentence at a time it is equal"),
        (lambda s, h, mask: {"weights": weights_of(s, h, mask | True), "state": s + 1}, "step",
         "Nothing in the catalogue explains what follows"),
        (lambda s, h, mask: {"weights": weights_of(s, h, mask | True), "state": s + 1}, "step",
         "Up to weights, it is as if no-mask"),
        (lambda s, y, c: s * np.nan, "state", "inf"),
    ],
)  # fmt: skip
def test_what_no_entry_explains_is_measured(code, part, said):
    report = check(code, part)
    assert not report.ok and not report.deviations and said in str(report), report


@pytest.mark.parametrize(
    ("code", "part", "message"),
    [
        (lambda s: s[99], "state", r"test_check.py, line \d+: `.*s\[99\].*`: index 99 is out"),
        (lambda p: p["W_x"], "state", "KeyError: 'W_x'"),
        (lambda s, hidden: s, "state", "missing 1 required positional argument: 'hidden'"),
        (lambda s: torch.tanh(s), "state", "must be Tensor"),
        (lambda s: s[:, :5], "state", r"shape \(23, 5\)"),
        (lambda s: {"stat": s}, "state", "'stat'"),
        (lambda s: s + 0j, "state", "complex128"),
        (lambda s: object(), "state", "returns object"),
        (lambda s: sys.exit(3), "state", r"`.*sys.exit\(3\).*`: SystemExit: 3"),
        (lambda s: None, "state", "returns nothing"),
        (
            lambda s, h, W_a, U_a, v_a: np.tanh(s.reshape(1, 12) @ W_a.T + h @ U_a.T) @ v_a,
            "energies",
            r"reshape.* \(sentences of one length.*in a batch it is not",
        ),
        (lambda s, h, mask: (weights_of(s, h, mask), h[:, 0]), "weights", "name it step"),
        (lambda s: s, None, r"--part"),
        (nn.GRUCell, None, "GRUCell"),
    ],
)
def test_mistakes_in_the_code_are_shown_with_their_place(code, part, message):
    with pytest.raises(UserError, match=message):
        check(code, part)


def test_a_wrong_part_has_the_layout_of_the_right_ones():
    class TimeFirst:
        def context(self, alpha, h):
            return np.einsum("xb,xbc->bc", alpha, h)

        def encode(self, x):
            return np.zeros((*x.shape, 24))

    wrong, right = check(TimeFirst).parts
    assert right.ok and not wrong.ok and right.layout.time_first and wrong.layout.time_first


# --- the command --------------------------------------------------------------------------------


def command(*arguments):
    """Its exit status and what it prints."""
    ran = call("fairseq_rnnsearch.conformance", *arguments)
    return ran.rc, ran.out + ran.err


def test_the_command(tmp_path):
    faithful, faulty = tmp_path / "faithful.py", tmp_path / "faulty.py"
    faithful.write_text(SOURCE)
    faulty.write_text(SOURCE.replace("reset * h", "h"))
    torch_code = "--framework", "torch"
    status, shown = command(f"{faithful}:Model", *torch_code)
    assert status == 0 and shown.startswith("Model: equal to the authors' program")
    status, shown = command(f"{faulty}:Model", *torch_code)
    assert status == 1 and "rnnsearch-check --explain no-reset says more." in shown
    faulty.write_text("def state(s):\n    return s.no_such\n")
    status, shown = command(f"{faulty}:state")
    assert status == 2 and "faulty.py, line 2: `return s.no_such`" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch.py:step"], "nosuch.py: No such file or directory"),
        (["textwrap"], "textwrap: expected FILE.py:NAME or FILE.py"),
        (["--explain", "reset-afte"], "reset-afte"),
        (["--part", "stat", "x.py:f"], "stat"),
    ],
)
def test_mistakes_on_the_command_line(arguments, message):
    status, shown = command(*arguments)
    assert status == 2 and message in shown


EXERCISES = ROOT / "recipes" / "lecture" / "exercises"
# what stands in them, and what must
SOLUTIONS = {
    "attention.py": [("U_a, v_a) * mask", "U_a, v_a) - 1e9 * ~mask", "mask-zero")],
    "decoder.py": [
        ('p["E_y"][y] + p["b_y"]', '(p["E_y"][y] + p["b_y"]) * (y[:, None] >= 0)', "first-word"),
        ("t[:, :half], t[:, half:]", "t[:, ::2], t[:, 1::2]", "maxout-halves"),
    ],
    "encoder.py": [
        ('r * (h @ p[f"U{side}"].T)', '(r * h) @ p[f"U{side}"].T', "reset-after"),
        ("backward[np.arange(len(x)), last]", "backward[:, 0]", "start-wrong-end"),
    ],
}


def test_faults_of_the_exercises_are_named(tmp_path):
    for name, changes in SOLUTIONS.items():
        text = (EXERCISES / name).read_text()
        for fault, right, deviation in changes:
            assert deviation in command(EXERCISES / name)[1]
            text = text.replace(fault, right)
        (tmp_path / name).write_text(text)
        assert command(tmp_path / name)[0] == 0


@pytest.mark.slow
def test_exercises_are_graded():
    graded = run_process([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", EXERCISES])
    assert "4 failed, 2 passed" in graded.stdout


def test_each_function_is_checked_by_itself(tmp_path):
    right = (EXERCISES / "attention.py").read_text().replace(*SOLUTIONS["attention.py"][0][:2])
    (tmp_path / "d.py").write_text(
        right + "\n\ndef state(s):\n    raise NotImplementedError('todo')\n"
    )
    status, shown = command(tmp_path / "d.py")
    assert status == 2 and shown.startswith("d: all but state is equal to the authors' program")
    assert "state cannot be run\n  d.py, line " in shown


CONTEXT = "def context(alpha, h):\n    return (alpha[:, :, None] * h).sum(1)\n"
SINGLE_ONLY = CONTEXT.replace(
    "h):\n", "h, mask):\n    assert (h.dtype, mask.dtype) == ('f4', bool)\n"
)
ANNOTATED = "from __future__ import annotations\nfrom dataclasses import dataclass\n"


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        (CONTEXT, "numpy"),
        (CONTEXT.replace("[:, :, None]", ".unsqueeze(2)"), "torch"),
        (f"{ANNOTATED}@dataclass\nclass A:\n    n: int\n{CONTEXT}", "numpy"),
        # without a mask and with time first: one sentence at a time
        (CONTEXT.replace("sum(1)", "sum(0)"), "numpy"),
        (SINGLE_ONLY, "numpy"),
        (CONTEXT.replace("h)", "h, *further)", 1), "numpy"),
    ],
)
def test_a_file_that_is_right(tmp_path, text, framework):
    file = tmp_path / f"of_{tmp_path.name}.py"  # modules stay
    file.write_text(text)
    report = check(imported(str(file)), framework=framework)
    assert report.ok and [part.part for part in report.parts] == ["context"]


def test_weights_without_a_name_are_not_taken_for_energies():
    def step(s, y_prev, y, h, mask):
        quantities = VariantModel(parameters(), {}).step(s, y_prev, y, h, mask)
        return tuple(quantities[name] for name in ("weights", "context", "state"))

    (part,) = check(step).parts
    assert part.ok and list(part.errors) == ["weights", "context", "state"]


def test_every_entry_is_listed_and_explained():
    listed = command("--list")[1]
    assert [line.split()[0] for line in listed.splitlines()] == [one.name for one in CATALOGUE]
    for entry in CATALOGUE:
        assert entry.program in command("--explain", entry.name)[1]
