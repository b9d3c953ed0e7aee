"""``--compute-dtype bfloat16``: what is rounded, what is not, and that it learns all the same.

bfloat16 has 8 significant bits: a rounding is off by at most 2^-9 of a number. A few of them in a
row come to 1 percent of a gradient's norm, and the tolerance is 2.
"""

import copy
import math

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from models import (
    SOURCES,
    TARGETS,
    adadelta,
    batch_of,
    build_model,
    random_model,
)
from omegaconf import OmegaConf
from slow_cases import cases
from test_criterion import criterion_of
from torch.testing import assert_close

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels import BACKENDS, DecoderParts, DecoderSteps, Direction
from fairseq_rnnsearch.paper.equations import (
    AlignmentModel,
    BiasedEmbedding,
    DeepOutput,
    GatedUnit,
    Memory,
    OutputLayer,
)
from fairseq_rnnsearch.runs.trainer import ResumableTrainer

SIZES = {"encoder_embed_dim": 24, "encoder_hidden_size": 32, "decoder_embed_dim": 28}
SIZES |= {"decoder_hidden_size": 36, "attention_size": 40, "maxout_size": 20}
VARIANTS = {
    "paper": {},
    "reference kernels": {"kernels": "reference"},
    "appendix, factorised": {"decoder_order": "appendix", "output_layer": "factorised"},
    "section3": {"decoder_order": "section3"},
    "RNNencdec": {"fixed_context": True},
}
TOLERANCE = 0.02


def moderate_model(seed=0, **options):
    """In float32; each parameter of a size that leaves no unit saturated.

    Of each maxout pair one unit is clearly the larger: where they are nearly equal, a rounding
    decides which one gets the gradient.
    """
    model = random_model(seed, **SIZES, **options).float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter /= 0.4 * parameter.size(1) ** 0.5
        model.decoder.readout.bias[::2] += 3
    return model


def copied(model, compute_dtype):
    model = copy.deepcopy(model)
    model.encoder.compute_dtype = model.decoder.compute_dtype = compute_dtype
    return model


def run(model):
    """Cost, alignment weights, and the gradient of each parameter, by name."""
    sample = batch_of(SOURCES, TARGETS)
    loss, _, _ = criterion_of(model, label_smoothing=0.1)(model, sample)
    loss.backward()
    attention = model(**sample["net_input"])[1]["attn"]
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found | {"loss": loss.detach()} | ({} if attention is None else {"attn": attention[0]})


@pytest.mark.parametrize("variant", cases(VARIANTS, "paper", "reference kernels", "RNNencdec"))
def test_values_and_gradients_are_close(variant):
    """Over six models together: in a single one a small gradient may be off by more."""
    off, norm = ({} for _ in range(2))
    for seed in range(6):
        model = moderate_model(seed, **VARIANTS[variant])
        found = run(copied(model, "bfloat16"))
        exact = run(copied(model, "float32").double())
        assert found.keys() == exact.keys()
        assert {x.dtype for name, x in found.items() if name != "attn"} == {torch.float32}
        for name, x in exact.items():
            off[name] = off.get(name, 0) + (found[name] - x).norm() ** 2
            norm[name] = norm.get(name, 0) + x.norm() ** 2
    errors = {name: (off[name] / norm[name]).sqrt().item() for name in off}
    worst = max(errors.values())
    assert 2**-10 < worst < TOLERANCE, errors


# --- what goes on for long -----------------------------------------------------------------------

T, B, N = 600, 2, 3
GATE = 1 / (1 + math.exp(7))
LIFTED = 1 - (1 - GATE) ** T  # 0.421; a state kept in bfloat16 stops at 0.25


def slow_inputs(steps, dtype):
    """An update gate of 0.0009 lifts a state by less than bfloat16 can tell."""
    parts = torch.full((steps, B, N), 9.0), torch.full((steps, B, 2 * N), -7.0)
    return torch.cat(parts, dim=-1).to(dtype)


@torch.no_grad()
def nothing_but(module, dtype, **values):
    """A module whose other parameters are zero."""
    for name, parameter in module.named_parameters():
        parameter.copy_(torch.as_tensor(values.get(name, 0.0)))
    return module.to(dtype)


def unit(dtype, **values):
    return nothing_but(GatedUnit(1, N, N), dtype, **values)


def both_directions(kernels, inputs, dtype):
    ways = [Direction(inputs, unit(dtype), reverse) for reverse in (False, True)]
    states = kernels.recurrence(ways, present=torch.ones(T, B, dtype=torch.bool))
    return torch.cat((states[-1, :, :N], states[0, :, N:]))


def with_attention(kernels, inputs, dtype):
    given = torch.zeros(B, 4, N).to(dtype)
    memory = Memory(given, given, torch.torch.zeros(B, 4, dtype=torch.bool))
    model = nothing_but(AlignmentModel(N, N, N), dtype)
    initial = torch.zeros(B, N).to(dtype)
    return kernels.decoder_recurrence(inputs, initial, T, memory, unit(dtype), model)[0][-1]


def in_a_search(kernels, inputs, dtype):
    """One word, whose embedding is 1, again and again; the state is what t shows."""
    shown = torch.eye(N).repeat_interleave(2, dim=0)  # by both units of each pair
    parts = DecoderParts(
        nothing_but(BiasedEmbedding(2, 1), dtype, weight=1.0),
        unit(dtype, input_weight=inputs[0, 0].unsqueeze(1)),
        None,
        nothing_but(DeepOutput(N, N, 1, N), dtype, state_weight=shown),
        nothing_but(OutputLayer(2, N), dtype),
    )
    summary, words = torch.zeros(B, N).to(dtype), torch.torch.zeros(B, dtype=torch.long)
    with torch.no_grad():
        steps = DecoderSteps("section3", parts, None, summary, summary, torch.arange(B))
        for _ in range(T + 1):  # before the first step no word has been read
            t, _ = steps.step(words)
    return t


@pytest.mark.parametrize("way", [both_directions, with_attention, in_a_search])
@pytest.mark.parametrize(
    ("inputs", "parameters"),
    [
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),  # of products of words, on a GPU or with dropout
        (torch.bfloat16, torch.bfloat16),  # of a search, whose matrices are rounded once
    ],
    ids=str,
)
@pytest.mark.parametrize("kernels", ["reference", "fast"])  # on a CPU "gpu" is the first
def test_states_move_on_by_less_than_bfloat16_can_tell(kernels, inputs, parameters, way):
    lowered = parameters == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16, enabled=not lowered):
        reached = way(BACKENDS[kernels], slow_inputs(T, inputs), parameters)
    assert (reached.float() - LIFTED).abs().max() < 0.004


@pytest.mark.parametrize("kernels", ["reference", "fast"])  # on a CPU "gpu" is the first
def test_gradients_are_summed_over_steps_in_float32(kernels):
    """Of what each step reads: weights, keys and annotations. In bfloat16 the sum of 600 numbers
    of one size stops growing, at about the 256th."""
    found = {}
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(1)
        unit, model = GatedUnit(1, N, 2 * N), AlignmentModel(N, N, 2 * N)
        initial, annotations, keys = (
            (0.3 * torch.randn(shape)).to(dtype).requires_grad_()
            for shape in ((B, N), (B, 4, 2 * N), (B, 4, N))
        )
        for parameter in (*unit.parameters(), *model.parameters()):
            torch.nn.init.normal_(parameter, std=0.3)
        unit, model = unit.to(dtype), model.to(dtype)
        # as from an encoder: of a leaf, autocast keeps the rounded one, and sums its gradient in it
        memory = Memory(annotations * 1, keys * 1, torch.torch.zeros(B, 4, dtype=torch.bool))
        inputs = torch.full((T, B, 3 * N), 0.25, dtype=dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
            states, contexts, _ = BACKENDS[kernels].decoder_recurrence(
                inputs, initial, T, memory, unit, model
            )
        (states.sum() + contexts.sum()).backward()
        leaves = annotations, keys, *unit.parameters(), *model.parameters()
        found[dtype] = [x.grad for x in leaves if x.grad is not None]
        assert len(found[dtype]) == 7
    for one, exact in zip(*found.values(), strict=True):
        assert (one - exact).norm() < TOLERANCE * exact.norm()


def test_frequent_words_collect_their_gradient_in_float32():
    """4,096 positions of one word, each with a gradient of one."""
    model = build_model(compute_dtype="bfloat16")
    words = torch.full((64, 64), 5)
    embedding = model.encoder.embedding
    with torch.autocast("cpu", torch.bfloat16):
        embedding(words).sum().backward()
    assert (embedding.weight.grad[5] == 4096).all()


def update(model, optimizer):
    optimizer.zero_grad()
    run(model)
    optimizer.clip_grad_norm(1.0)
    optimizer.step()


def test_parameters_optimizer_and_checkpoints_stay_float32():
    lowered, plain = (build_model(compute_dtype=d) for d in ("bfloat16", "float32"))
    optimizer = adadelta(lowered)
    update(lowered, optimizer)
    saved = lowered.state_dict()
    averages = [x for state in optimizer.state_dict()["state"].values() for x in state.values()]
    tensors = [*saved.values(), *averages, *(p.grad for p in lowered.parameters())]
    assert {x.dtype for x in tensors} == {torch.float32}
    plain.load_state_dict(saved)
    lowered.load_state_dict(plain.state_dict())
    assert_close(plain.state_dict(), saved, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["fp16", "memory_efficient_bf16", "amp"])
def test_fairseqs_types_are_refused_in_one_line(name):
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.common[name] = True
    message = f"^--{name.replace('_', '-')}: "
    with pytest.raises(UserError, match=message):
        build_model().prepare_for_inference_(cfg)
    cfg.model = {"_name": "rnnsearch", "compute_dtype": "float32"}
    with pytest.raises(UserError, match=message):
        ResumableTrainer(cfg, None, None, None)
