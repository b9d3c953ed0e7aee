"""Average the parameters of several checkpoints of one training into a new checkpoint.

python -m fairseq_rnnsearch.training.averaging OUT CHECKPOINT...
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.runs.checkpoints import read_checkpoint


def write_average(paths: Sequence[Path], out: Path) -> None:
    """Write the last checkpoint with the mean of the parameters, without an optimizer's state.

    Raises:
        UserError: there is none, or they have different parameters.
    """
    if not paths:
        raise UserError("there is no checkpoint to average: the training has had no validation")
    mean: dict[str, torch.Tensor] = {}
    for path in paths:
        checkpoint = read_checkpoint(path)
        parameters = checkpoint["model"]
        if mean and mean.keys() != parameters.keys():
            raise UserError(f"{path} has other parameters than {paths[0]}")
        for name, value in parameters.items():
            mean[name] = mean.get(name, 0) + value.double() / len(paths)
    checkpoint["model"] = {name: mean[name].to(value) for name, value in parameters.items()}
    checkpoint["last_optimizer_state"] = None
    torch.save(checkpoint, out)


@program
def main() -> None:
    """Run the command."""
    out, *paths = map(Path, sys.argv[1:])
    write_average(paths, out)


if __name__ == "__main__":
    main()
