"""Average the parameters of several checkpoints of one training into a new checkpoint.

python recipes/average.py --out average.pt checkpoint.best_*.pt
"""

import argparse
from pathlib import Path

import torch

from fairseq_rnnsearch.errors import UserError, program
from fairseq_rnnsearch.runs.checkpoints import read_checkpoint


def average(paths: list[Path]) -> dict:
    """Return the last checkpoint with the mean of the parameters, without an optimizer's state.

    Raises:
        UserError: the checkpoints have different parameters.
    """
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
    return checkpoint


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Average the parameters of checkpoints.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("checkpoints", type=Path, nargs="+")
    options = parser.parse_args()
    torch.save(average(options.checkpoints), options.out)
    print(f"average of {', '.join(path.name for path in options.checkpoints)}")


if __name__ == "__main__":
    main()
