"""``rnnsearch-train --from``: what a training takes over from a model, and what it becomes.

``WORK/from`` is a copy of the model's folder with a checkpoint of it, ``from.pt``, where fairseq's
``--finetune-from-model`` begins. The training has the model's settings, merges and dictionaries.
With ``--average-start 1``, the default here, from.pt is one of the checkpoints whose mean
translates, so that it forgets less (Wortsman et al., 2022, "Robust fine-tuning of zero-shot
models").
``WORK/model`` is a folder again, stored as the model was. A folder may have ``pairs.tsv.gz``, some
of the pairs that its model was trained on: they are mixed in, or it would forget them.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.models.find import CONFIG, find_model
from fairseq_rnnsearch.models.folder import ModelConfig, read_config
from fairseq_rnnsearch.text.plain_text import settings_of
from fairseq_rnnsearch.train.settings import OF_SIDES
from fairseq_rnnsearch.train.stages import Training, lines_of
from fairseq_rnnsearch.train.steps import Step

_PAIRS = "pairs.tsv.gz"


class Origin(NamedTuple):
    """A model to go on with.

    Attributes:
        settings: those of rnnsearch-train that it decides.
        pairs: a file of pairs that it was trained on, if it has one.
    """

    folder: Path
    config: ModelConfig
    settings: dict[str, Any]
    pairs: Path | None


def read_origin(place: str) -> Origin:
    """Read a model that ``models.find`` finds.

    Raises:
        UserError: there is no model, or it is a checkpoint.
    """
    folder = find_model(place)
    if folder.is_file():
        raise UserError(
            f"--from {place} is a checkpoint: make a folder of it with rnnsearch-export"
        )
    config, described = read_config(folder), settings_of(folder)
    options, texts = config.options, [described.get(one, {}) for one in config.languages]
    tokenizers = [text.get("tokenizer", "space") for text in texts]
    codes = [text["bpe_codes"] for text in texts if text.get("bpe_codes")]
    settings = {
        "tokenizer": tokenizers[0],
        **dict(zip(OF_SIDES, tokenizers, strict=True)),
        "lowercase": int(any(text.get("lowercase") for text in texts)),
        "vocabulary": "bpe" if codes else "shortlist",
        "bpe_merges": len(lines_of(folder / codes[0])) - 1 if codes else 0,  # the first is a title
        "model": "rnnencdec" if options["fixed_context"] else "rnnsearch",
        "embedding": options["encoder_embed_dim"],
        "hidden": options["decoder_hidden_size"],
        "attention": options["attention_size"],
        "maxout": options["maxout_size"],
        "decoder_order": options.get("decoder_order", "program"),
    }
    pairs = folder / _PAIRS
    return Origin(folder, config, settings, pairs if pairs.exists() else None)


@dataclass(frozen=True)
class Continuation(Training):
    """A training that goes on with a model.

    Attributes:
        model: its folder.
    """

    model: Path

    @property
    def beginning(self) -> Path:
        """Return the copy of the model, with from.pt."""
        return self.work.folder / "from"

    def prepare_text(self) -> list[Step]:
        """Return the steps from the model and the corpus to data for fairseq."""
        return [Step("copy the model", self._copy, self.beginning), *super().prepare_text()]

    def write_model(self, licence: str) -> Path:
        """Write the model's folder, with the last scores, and return it."""
        stored = json.loads((self.beginning / CONFIG).read_text(encoding="utf-8"))["weights"]
        with replacing(self.work.folder / "model", may_be_folder=True) as out:
            self.work.run("export", [
                "-m", "fairseq_rnnsearch.commands.export", self.trained, "--data", self.data,
                "--out", out, "--weights", stored, "--licence", licence,
            ])  # fmt: skip
            if (pairs := self.beginning / _PAIRS).exists():
                shutil.copyfile(pairs, out / _PAIRS)
        return self.work.folder / "model"

    def _copy(self, out: Path) -> None:
        from fairseq_rnnsearch.models.conversion import to_checkpoint

        shutil.copytree(self.model, out)
        to_checkpoint(str(out), out / "from.pt")
