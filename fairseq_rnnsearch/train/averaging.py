"""Average the parameters of several checkpoints of one training into a new checkpoint.

python -m fairseq_rnnsearch.train.averaging OUT CHECKPOINT...
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.runs.checkpoints import read_checkpoint


def write_average(paths: Sequence[Path], out: Path) -> None:
    """Write the last checkpoint with the mean of the parameters, without an optimizer's state."""
    *others, last = map(read_checkpoint, paths)
    for name, value in last["model"].items():
        total = sum((other["model"][name].double() for other in others), value.double())
        last["model"][name] = (total / len(paths)).to(value)
    torch.save(last | {"last_optimizer_state": None}, out)


@program
def main() -> None:
    """Run the command."""
    out, *paths = map(Path, sys.argv[1:])
    write_average(paths, out)


if __name__ == "__main__":
    main()
