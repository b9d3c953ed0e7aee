"""Copy a checkpoint as the beginning of a training that is judged by another measure.

    python recipes/wmt14_en_fr/begin.py FROM TO

Everything stays but the best score so far and the count of validations since, which belong to the
measure that judged the training before.
"""

import sys

import torch

from fairseq_rnnsearch.compat.checkpoints import read_checkpoint
from fairseq_rnnsearch.files import replacing


def main() -> None:
    source, target = sys.argv[1:]
    checkpoint = read_checkpoint(source)
    for name in ("best", "val_loss", "patience"):
        checkpoint["extra_state"].pop(name, None)
    with replacing(target, durable=True) as partial:
        torch.save(checkpoint, partial)


if __name__ == "__main__":
    main()
