"""Carry a model over to another vocabulary, from which a training can go on.

    python recipes/everyday/carry_over.py --model FOLDER --data DATA --out NEW_FOLDER

A word of DATA's dictionaries keeps its embedding and output if the model has the word, or has it
with a capital; any other gets the mean of the pieces that the model's merges make of it, or zeros.
"""

import argparse
from pathlib import Path

import torch

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.models.find import find_model
from fairseq_rnnsearch.models.folder import ModelFolder, read_folder, write_folder
from fairseq_rnnsearch.network import ModelOptions, TranslationModel, networks_of
from fairseq_rnnsearch.text.dictionary_file import read_dictionary
from fairseq_rnnsearch.text.plain_text import PlainText


def rows_of(folder: ModelFolder, side: int, data: Path) -> list[list[int]]:
    """Return, for each word of a new dictionary, the rows of the old one that stand for it."""
    language, old = folder.config.languages[side], folder.dictionaries[side]
    rules, number = PlainText.of(folder.path, language), {w: i for i, w in enumerate(old.symbols)}
    rows = []
    for word in read_dictionary(data / f"dict.{language}.txt").symbols:
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
    options = parser.parse_args()
    old = read_folder(find_model(str(options.model)))
    source, target = old.config.languages
    dictionaries = tuple(
        read_dictionary(options.data / f"dict.{one}.txt") for one in (source, target)
    )
    model = TranslationModel(*networks_of(ModelOptions(**old.config.options), *dictionaries))
    sides = {"encoder": rows_of(old, 0, options.data), "decoder": rows_of(old, 1, options.data)}
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
