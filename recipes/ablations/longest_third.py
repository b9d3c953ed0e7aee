"""Take the third of each set of sentence pairs that has most source words.

    python recipes/ablations/longest_third.py --folder FOLDER --out DIR

reads FOLDER/{train,val,test}.{en,fr}, plain or packed as .gz, and writes
DIR/{train,valid,test}.{en,fr}. The pairs keep their order.
"""

import argparse
from pathlib import Path

from fairseq_rnnsearch.data.packed_text import read_lines
from fairseq_rnnsearch.errors import UserError, program

SETS = {"train": "train", "val": "valid", "test": "test"}  # theirs: ours


def longest_third(sources: list[str]) -> list[int]:
    """Return which sentences have most words, a third of them, in their order."""
    by_length = sorted(range(len(sources)), key=lambda i: -len(sources[i].split()))
    return sorted(by_length[: len(sources) // 3])


@program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for theirs, ours in SETS.items():
        sides = {side: read_lines(options.folder / f"{theirs}.{side}") for side in ("en", "fr")}
        if len(sides["en"]) != len(sides["fr"]):
            raise UserError(
                f"LONG_DIR={options.folder}: {theirs}.en has {len(sides['en'])} lines and "
                f"{theirs}.fr {len(sides['fr'])}, which should be equal"
            )
        chosen = longest_third(sides["en"])
        for side, lines in sides.items():
            (options.out / f"{ours}.{side}").write_text(
                "".join(f"{lines[i]}\n" for i in chosen), encoding="utf-8", newline="\n"
            )


if __name__ == "__main__":
    main()
