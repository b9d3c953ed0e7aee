"""Compare the device's results with a CPU's and the authors' program's, within bounds.

The authors' numbers, and what reads them, are those of ``tests/``.
"""

import math
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import torch
from authors import SEARCHES, authors_params, recorded_numbers, recorded_searches
from device import Device, Measured, Measurements, bounded, moved, products_in
from models import (
    adadelta,
    batch_of,
    fairseq_words,
    groundhog_from_state_dict,
    model_from_arrays,
    padded,
    previous,
)
from search import sentences
from speed import BEAM, TOGETHER, kinds

from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion
from fairseq_rnnsearch.plugin.generators import AuthorsSequenceGenerator, StepwiseGenerator
from fairseq_rnnsearch.plugin.model import RNNSearchModel

# of a gradient, the norm of the difference from float64 over the norm
BOUNDS = {"float64": 1e-9, "float32": 1e-4, "tf32": 1e-2, "bfloat16": 1e-2}
EXACT = 1e-9  # of numbers in float64
ROUNDED = 1e-6  # after updates: a fused one takes rho and epsilon in float32
SYMBOLS = 25  # of the authors' dictionaries
CPU = torch.device("cpu")


def correctness(device: Device) -> Measurements:
    """Gradients beside float64, the authors' numbers and searches, and searches beside a CPU's."""
    exact = cache(partial(_gradients, device, device.torch))

    def beside_a_cpu() -> Measured:
        return _largest(_gradients(device, CPU), exact(), BOUNDS["float64"])

    def beside_float64(kernels: str, operands: str) -> Measured:
        model = device.model(kernels=kernels, compute_dtype=operands)
        with products_in(operands):
            for _ in range(3):  # the second time loops are recorded
                model.zero_grad()
                gradients = _gradients(device, device.torch, model)
        return _largest(gradients, exact(), BOUNDS[operands])

    measurements = {"gradients in float64, beside a CPU's": beside_a_cpu}
    for k, o in kinds(device):
        measurements[f"gradients, {k} kernels, {o}"] = partial(beside_float64, k, o)
    for k in ("reference", device.kernels):
        measurements[f"the authors' numbers, {k} kernels"] = partial(_authors_numbers, device, k)
    measurements["the authors' searches that differ"] = partial(_authors_searches, device)
    measurements["translations that differ from a CPU's"] = partial(_translations, device)
    return measurements


def _gradients(
    device: Device, where: torch.device, model: RNNSearchModel | None = None
) -> dict[str, torch.Tensor]:
    """Return a batch's gradients in float64 on the CPU; without a model, the reference's."""
    model = (model or device.model(kernels="reference").double()).to(where)
    device.criterion()(model, moved(device.batch(), where))[0].backward()
    return {name: p.grad.double().cpu() for name, p in model.named_parameters()}


def _largest(gradients: dict, exact: dict, bound: float) -> Measured:
    errors = {
        name: float((gradients[name] - gradient).norm() / gradient.norm())
        for name, gradient in exact.items()
        if gradient.any()
    }
    worst = max(errors, key=lambda name: math.inf if math.isnan(errors[name]) else errors[name])
    return bounded(errors[worst], bound, worst)


def _authors_numbers(device: Device, kernels: str) -> Measured:
    """Return the largest difference from a batch of the authors' program and its three updates."""
    recorded = recorded_numbers()
    model = model_from_arrays(authors_params()).to(device.torch)
    model.encoder.kernels = model.decoder.kernels = kernels
    sources, targets = (
        [fairseq_words(recorded[f"sent{b}/{side}"], SYMBOLS) for b in range(4)] for side in "xy"
    )
    batch = moved(batch_of(sources, targets), device.torch)
    words = [moved(padded(x), device.torch) for x in (sources, previous(targets))]
    attention = model(words[0], None, words[1])[1]["attn"][0].detach().cpu().numpy()
    differences = {}
    for b, (source, target) in enumerate(zip(sources, targets, strict=True)):
        ours = attention[b, : len(target), : len(source)]
        authors = recorded["alignment"][: len(target), : len(source), b]
        differences[f"alignment {b}"] = np.abs(ours - authors).max()
    words_of = {"source_dictionary": model.encoder, "target_dictionary": model.decoder}
    task = SimpleNamespace(**{name: part.dictionary for name, part in words_of.items()})
    criterion = AlignmentHeatmapCriterion(task, "sum", 0.0)
    optimizer = adadelta(model)
    rounded = {}
    for step in (1, 2, 3):
        optimizer.zero_grad()
        cost = criterion(model, batch)[0]
        optimizer.backward(cost)
        kept = differences if step == 1 else rounded
        expected = float(recorded[f"adadelta/step{step}/cost"])
        kept[f"cost {step}"] = abs(cost.item() - expected) / abs(expected)
        if step == 1:
            gradients = groundhog_from_state_dict({n: p.grad for n, p in model.named_parameters()})
            for name, gradient in gradients.items():
                difference = np.abs(gradient - recorded[f"grad/{name}"]).max()
                differences[f"gradient {name}"] = difference
        optimizer.clip_grad_norm(1.0)
        optimizer.step()
    for name, array in groundhog_from_state_dict(model.state_dict()).items():
        rounded[name] = np.abs(array - recorded[f"adadelta/step3/param/{name}"]).max()
    largest = {}
    for title, values, bound in (("pass", differences, EXACT), ("updates", rounded, ROUNDED)):
        worst = max(values, key=lambda name: np.nan_to_num(values[name], nan=np.inf))
        largest[title] = bounded(values[worst], bound, worst)
    return largest


def _authors_searches(device: Device) -> Measured:
    """Return how many of the program's recorded searches have other results here."""
    differing, params = [], authors_params()
    for label in SEARCHES:
        runs, changed = recorded_searches(label)
        model = model_from_arrays(params | changed).to(device.torch)
        for run in runs:
            search = AuthorsSequenceGenerator(
                *([model], model.decoder.dictionary),
                beam_size=run["beam"],
                normalize_scores=False,
                unk_penalty=math.inf if run["ignore_unk"] else 0,
            )
            source = [fairseq_words(run["source"], SYMBOLS)]
            [hypotheses] = search.generate(None, moved(batch_of(source, source), device.torch))
            words = [hypothesis["tokens"].tolist() for hypothesis in hypotheses]
            if words != [fairseq_words(x, SYMBOLS) for x in run["translations"]]:
                differing.append(label)
    return bounded(len(differing), 0, ", ".join(differing[:3]))


def _translations(device: Device) -> Measured:
    """Return how many best translations of sentences differ from a CPU's, in float64."""
    model = device.model().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # larger, so that nothing is nearly equal
            parameter.normal_(0.0, 0.1)
    words, translations = sentences(device.size, TOGETHER), []
    for where in (CPU, device.torch):
        model.to(where)
        search = StepwiseGenerator([model], model.decoder.dictionary, beam_size=BEAM, max_len_b=20)
        source = {"net_input": {"src_tokens": words.to(where)}}
        translations.append([beam[0]["tokens"].tolist() for beam in search.generate(None, source)])
    differing = [
        i for i, (one, other) in enumerate(zip(*translations, strict=True)) if one != other
    ]
    return bounded(len(differing), 0, ", ".join(map(str, differing[:5])))
