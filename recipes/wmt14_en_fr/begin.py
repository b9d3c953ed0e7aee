"""Copy a checkpoint as the beginning of a training that is judged by another measure.

    python recipes/wmt14_en_fr/begin.py FROM TO

Everything stays but the best score so far and the count of validations since, which belong to the
measure that judged the training before.
"""

import argparse
from pathlib import Path

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.runs.checkpoints import read_checkpoint
from fairseq_rnnsearch.runs.writing import write_whole


@program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, metavar="FROM")
    parser.add_argument("target", type=Path, metavar="TO")
    options = parser.parse_args()
    checkpoint = read_checkpoint(options.source)
    for name in ("best", "val_loss", "patience"):
        checkpoint["extra_state"].pop(name, None)
    write_whole(checkpoint, str(options.target))


if __name__ == "__main__":
    main()
