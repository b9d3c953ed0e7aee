"""Carry a model over to another vocabulary, from which a training can go on.

    python recipes/everyday/carry_over.py --model FOLDER --data DATA --out NEW_FOLDER

A word of DATA's dictionaries keeps its embedding and output if the model has the word, or has it
with a capital; any other gets the mean of the pieces that the model's merges make of it, or zeros.
Words that occurred less often than --least are left out.
"""

import argparse
from pathlib import Path

import torch

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.models.find import find_model
from fairseq_rnnsearch.models.folder import ModelFolder, read_folder, write_folder
from fairseq_rnnsearch.network import ModelOptions, TranslationModel, networks_of
from fairseq_rnnsearch.text.dictionary_file import Dictionary, read_dictionary
from fairseq_rnnsearch.text.plain_text import PlainText


def read(data: Path, language: str, least: int) -> Dictionary:
    """Read a dictionary without the words that occurred less often."""
    path = data / f"dict.{language}.txt"
    words = read_dictionary(path)
    entries = [*zip(words.symbols, words.count, strict=True)][words.nspecial :]
    return Dictionary(str(path), [(word, count) for word, count in entries if count >= least])


def rows_of(folder: ModelFolder, side: int, new: Dictionary) -> list[list[int]]:
    """Return, for each word of a new dictionary, the rows of the old one that stand for it."""
    language, old = folder.config.languages[side], folder.dictionaries[side]
    rules, number = PlainText.of(folder.path, language), {w: i for i, w in enumerate(old.symbols)}
    rows = []
    for word in new.symbols:
        core, mark = word.removesuffix("@@"), "@@" * word.endswith("@@")
        *pieces, last = rules.tokens(core) or [core]
        forms = [word], [core.capitalize() + mark], [*pieces, last + mark]
        rows.append(next(([number[w] for w in form] for form in forms if {*form} <= {*number}), []))
    return rows


@program
def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description="Carry a model over to another vocabulary.")
    for name in ("--model", "--data", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--least", type=int, default=10, help="how often a word must have occurred")
    options = parser.parse_args()
    old = read_folder(find_model(str(options.model)))
    source, target = (read(options.data, one, options.least) for one in old.config.languages)
    dictionaries = source, target
    model = TranslationModel(*networks_of(ModelOptions(**old.config.options), *dictionaries))
    sides = {"encoder": rows_of(old, 0, source), "decoder": rows_of(old, 1, target)}
    before = old.model.state_dict()
    with torch.no_grad():
        for name, values in model.state_dict().items():
            if values.shape == before[name].shape:
                values.copy_(before[name])
                continue
            for row, numbers in zip(values, sides[name.partition(".")[0]], strict=True):
                row.copy_(before[name][numbers].mean(dim=0) if numbers else torch.zeros_like(row))
    write_folder(options.out, model, old.config, dictionaries, options.data)


if __name__ == "__main__":
    main()
