"""``rnnsearch-export``: a trained model as a folder of plain files, and back.

    rnnsearch-export checkpoint_best.pt --out en-fr --weights int8
    rnnsearch-export en-fr --to-checkpoint en-fr.pt

The folder has the parameters in model.safetensors, the configuration, dictionaries and BPE codes, a
model card (README.md) and checksums; nothing in it can run. ``load`` and the other commands take it
wherever they take a checkpoint. The second form writes a checkpoint that fairseq-generate,
fairseq-validate and --finetune-from-model read; the folder itself is its data folder.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_rnnsearch.checks import WEIGHTS
from fairseq_rnnsearch.command_line import parser_of, program
from fairseq_rnnsearch.commands.command_options import show_warnings
from fairseq_rnnsearch.errors import UserError, as_text
from fairseq_rnnsearch.text.corpus import text_lines


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    show_warnings()
    options = _parser().parse_args(arguments)
    # they import torch and fairseq, which --help does not need
    from fairseq_rnnsearch.models import conversion

    if options.to_checkpoint:
        if options.to_checkpoint.exists():
            raise UserError(
                f"--to-checkpoint {options.to_checkpoint}: is there already; name a new file"
            )
        conversion.to_checkpoint(options.checkpoint, options.to_checkpoint)
        print(options.to_checkpoint, file=sys.stderr)
        return
    card = "".join(text_lines(options.card, "--card")) if options.card else None
    licence = as_text(options.licence)
    conversion.to_folder(
        options.checkpoint,
        options.data,
        options.out,
        options.weights or "float32",
        card,
        licence,
        options.user_dir,
        tuple(map(str.strip, text_lines(options.examples))) if options.examples else (),
    )
    size = sum(path.stat().st_size for path in options.out.iterdir())
    print(f"{options.out}: {size / 1e6:.1f} MB", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("rnnsearch-export", __doc__)
    parser.add_argument("checkpoint", help="a checkpoint, or the folder of a model")
    forms = parser.add_mutually_exclusive_group(required=True)
    forms.add_argument("--out", type=Path, metavar="FOLDER", help="export to this new folder")
    forms.add_argument("--to-checkpoint", type=Path, metavar="FILE", help="write a checkpoint")
    parser.add_argument(
        "--data", metavar="DIR",
        help="folder with the dictionaries of the training (default: the checkpoint's)",
    )  # fmt: skip
    parser.add_argument(
        "--weights", choices=WEIGHTS,
        help="how parameters are stored; int8 has one scale for each row of a matrix "
        "(default: float32)",
    )  # fmt: skip
    parser.add_argument(
        "--user-dir", metavar="DIR",
        help="folder that registers an --arch of your own, as for fairseq-train",
    )  # fmt: skip
    parser.add_argument("--card", type=Path, metavar="FILE", help="text of the model card")
    parser.add_argument(
        "--licence", default="", metavar="TEXT",
        help="a line about the data that the model was trained on, which pages show",
    )  # fmt: skip
    parser.add_argument(
        "--examples", type=Path, metavar="FILE", help="sentences that pages offer, one per line"
    )
    return parser


if __name__ == "__main__":
    main()
