"""What time, disk and memory a recipe's training takes, in two lines.

    python recipes/estimate.py --help

Time is for one core of a CPU: the multiplications of all updates, at the rate at which the Multi30k
recipe did its own (recipes/RESULTS.md). Disk and memory are those of that recipe's parts, scaled.
"""

import argparse
import shutil
from pathlib import Path

FLOPS = 60e9  # a second of one core, with validations
SEARCH_FLOPS = 15e9
SECONDS_OF_UPDATE = 0.05  # besides its multiplications
SECONDS_TO_START = 60  # of all programs together
ENVIRONMENT_BYTES, PROGRAM_BYTES = 1.5e9, 0.5e9  # torch and fairseq, on disk and in memory


def flops_of_pair(sizes: list[int], tokens: list[float], types: list[int]) -> tuple[float, float]:
    """Return the multiplications and additions of a pair's source, and of its target."""
    m, n, a, l = sizes
    source, target = tokens
    encoder = 2 * (6 * n * (m + n) + 2 * n * a)
    decoder = 2 * (
        3 * n * (m + 3 * n) + 2 * l * (m + 3 * n) + l * types[1] + a * n + source * (a + 2 * n)
    )
    return source * encoder, target * decoder


def parameters_of(sizes: list[int], types: list[int]) -> int:
    m, n, a, l = sizes
    recurrent = 6 * n * (m + n) + 3 * n * (m + 3 * n) + n * n + 3 * n * a
    return m * sum(types) + recurrent + 2 * l * (m + 3 * n) + l * types[1]


def duration(seconds: float) -> str:
    if seconds < 100 * 60:
        return f"{max(seconds / 60, 1):.0f} minutes"
    return f"{seconds / 3600:.0f} hours"


def gigabytes(number: float) -> str:
    return f"{max(number / 1e9, 0.1):.1f} GB"


def free_at(path: Path) -> int:
    """Return the free bytes of the disk on which a folder is, or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, required=True, help="of training")
    parser.add_argument("--test-pairs", type=int, required=True)
    two = {"type": int, "nargs": 2, "required": True, "metavar": ("SOURCE", "TARGET")}
    parser.add_argument("--tokens", help="of the training text", **two)
    parser.add_argument("--types", help="different tokens of the dictionaries", **two)
    parser.add_argument("--sizes", type=int, nargs=4, required=True, metavar=("m", "n", "a", "l"))
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--checkpoints", type=int, required=True, help="that are kept")
    parser.add_argument("--work", type=Path, required=True, help="the work folder")
    options = parser.parse_args()
    tokens = [count / options.pairs + 1 for count in options.tokens]
    source, target = flops_of_pair(options.sizes, tokens, options.types)
    update = 3 * options.batch_size * (source + target) / FLOPS + SECONDS_OF_UPDATE
    search = options.test_pairs * (source + options.beam * target) / SEARCH_FLOPS
    parameters = parameters_of(options.sizes, options.types)
    # A checkpoint has the parameters and two averages of Adam's; text is kept in five forms.
    disk = 12 * parameters * options.checkpoints + 5 * 6 * sum(options.tokens)
    widest = options.batch_size * 100 * 60 * options.sizes[1]
    memory = PROGRAM_BYTES + 32 * parameters + 4 * widest + 200 * options.pairs
    free = free_at(options.work.absolute())
    seconds = SECONDS_TO_START + options.updates * update + search
    print(
        f"{parameters / 1e6:.1f} million parameters; training and translating take about"
        f" {duration(seconds)} on one core and {gigabytes(memory)} of memory"
    )
    print(f"{options.work} takes {gigabytes(disk)} of disk, where {gigabytes(free)} are free")
    if disk > free:
        print("warning: the disk is too small")


if __name__ == "__main__":
    main()
