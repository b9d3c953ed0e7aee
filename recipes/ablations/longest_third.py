"""Select the third of each set's sentence pairs with the most source words.

    python recipes/ablations/longest_third.py --folder FOLDER --out DIR

reads FOLDER/{train,val,test}.{en,fr}, plain or packed as .gz, and writes
DIR/{train,valid,test}.{en,fr}. The pairs keep their order.
"""

import argparse
import sys
from pathlib import Path

from fairseq_rnnsearch.command_line import program

sys.path.append(str(Path(__file__).resolve().parents[1]))
from text_files import read_pairs, write_pairs

SETS = {"train": "train", "val": "valid", "test": "test"}  # the names of Multi30k and of a corpus


def longest_third(sources: list[str]) -> list[int]:
    """Return the third of the sentences with the most words, in their order."""
    by_length = sorted(range(len(sources)), key=lambda i: -len(sources[i].split()))
    return sorted(by_length[: len(sources) // 3])


@program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, part in SETS.items():
        pairs = read_pairs(options.folder / name)
        chosen = longest_third([source for source, _ in pairs])
        write_pairs([pairs[i] for i in chosen], options.out, part)


if __name__ == "__main__":
    main()
