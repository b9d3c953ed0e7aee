"""Did what the model looked at matter? Weights beside effects, on a model's own translations.

    python recipes/benchmark/mattered.py en-fr --text test.en

It prints, over the steps of all translations: the rank correlation (Spearman's) of a step's
weights with effects (``Translation.mattered``) and with their absolute values, how often the
position of the largest weight has the largest effect, and log p of a target token when the first 1,
2, ... source positions are taken away by weight, by effect and at random. Positions are subword
pieces, end symbols included.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from fairseq_rnnsearch import load
from fairseq_rnnsearch.alignment.evaluation.sentences import read_sentences
from fairseq_rnnsearch.command_line import program

MOST = 5  # positions taken away


def ranks_of(scores: np.ndarray) -> np.ndarray:
    """Return each position's rank in its row, the largest score first, from 0."""
    return (-scores).argsort(axis=1, kind="stable").argsort(axis=1)


@torch.inference_mode()
def log_p(model, translation, ranks: np.ndarray) -> np.ndarray:
    """Return log p of each target token without 0, 1, ... positions, ``(target, 1 + source)``."""
    source = [model.source_dictionary.index(token) for token in translation.source_tokens]
    target = [model.target_dictionary.index(token) for token in translation.tokens]
    previous = torch.tensor([[model.target_dictionary.eos(), *target[:-1]]])
    network = model.models[0]
    encoded = network.encoder(torch.tensor([source]))
    ranks = torch.from_numpy(ranks).unsqueeze(0)
    return network.decoder.without_each(previous, encoded, torch.tensor([target]), ranks)[0].numpy()


@program
def main() -> None:
    """Translate, take positions away, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="as for rnnsearch-translate; one model with attention")
    parser.add_argument("--text", type=Path, required=True, help="source sentences, one a line")
    parser.add_argument("--sentences", type=int, default=500, help="the first (default: 500)")
    options = parser.parse_args()
    # in float32: most effects are smaller than what bfloat16 rounds off log p
    model = load(options.checkpoint, compute_dtype="float32")
    random = np.random.default_rng(1)
    lines = read_sentences(options.text)[: options.sentences]
    correlations, agrees, curves = [], [], {"weight": [], "effect": [], "random": []}
    for one in model.translate(lines, attribution=True, pieces="keep"):
        weights, effects = one.weights, one.mattered
        if weights.shape[1] <= MOST:  # nothing would be left
            continue
        orders = ranks_of(weights), ranks_of(effects), ranks_of(random.random(weights.shape))
        of_sizes = ranks_of(np.abs(effects))
        correlations += [
            (np.corrcoef(a, b)[0, 1], np.corrcoef(a, size)[0, 1])
            for a, b, size in zip(*orders[:2], of_sizes, strict=True)
        ]
        agrees += list(weights.argmax(axis=1) == effects.argmax(axis=1))
        for name, order in zip(curves, orders, strict=True):
            curves[name] += list(log_p(model, one, order)[:, : MOST + 1])
    signed, sizes = np.mean(correlations, axis=0)
    print(f"{len(agrees)} steps; rank correlation with effects {signed:.2f}, with their sizes")
    print(f"{sizes:.2f}; the largest weight has the largest effect in {np.mean(agrees):.1%}")
    print("| taken away by | " + " | ".join(map(str, range(MOST + 1))) + " |")
    print("|---" * (MOST + 2) + "|")
    for name, curve in curves.items():
        print(f"| {name} | " + " | ".join(f"{mean:.2f}" for mean in np.mean(curve, axis=0)) + " |")


if __name__ == "__main__":
    main()
