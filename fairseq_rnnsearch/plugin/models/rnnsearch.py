"""RNNsearch and RNNencdec as fairseq models. The mathematics is in ``paper.network``."""

import contextlib
import functools
import logging
import lzma
import os
import tarfile
import tempfile
import zlib
from argparse import ArgumentParser
from typing import NamedTuple

import torch
from fairseq import hub_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.paper.network import INITIALIZATIONS, Decoder, Encoder, initialize
from fairseq_rnnsearch.plugin.models.model_options import (
    ALIGNMENTS,
    UNITS,
    RNNSearchConfig,
    add_younger_options,
    check_options,
)
from fairseq_rnnsearch.plugin.models.precision import round_matrices
from fairseq_rnnsearch.plugin.models.rnnsearch_decoder import RNNSearchDecoder
from fairseq_rnnsearch.plugin.models.rnnsearch_encoder import RNNSearchEncoder
from fairseq_rnnsearch.runs import mends
from fairseq_rnnsearch.runs.dictionaries import file_of
from fairseq_rnnsearch.runs.options import refuse_halves
from fairseq_rnnsearch.runs.trainer import AlignmentTask

logger = logging.getLogger(__name__)

MODEL = "rnnsearch"
_FORESIGHT = "decoder.network.alignment_model.foresight_weight"  # V_a


@register_model(MODEL, dataclass=RNNSearchConfig)
class RNNSearchModel(FairseqEncoderDecoderModel):
    """RNNsearch, or RNNencdec with ``--fixed-context``."""

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        target: Tensor | None = None,
        label_smoothing: float = 0.0,
        **options,
    ) -> tuple:
        """Return the decoder's ``forward``, or, given the correct words, its ``cost``.

        Criterions get the cost here, not from the decoder, because wrappers that share gradients
        among processes see only this function.
        """
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths, **options)
        if target is not None:
            return self.decoder.cost(prev_output_tokens, encoder_out, target, label_smoothing)
        return self.decoder(prev_output_tokens, encoder_out=encoder_out, **options)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options to a command line's parser, which a command does first."""
        mends.mend_fairseq()
        super().add_args(parser)

    @classmethod
    def build_model(cls, cfg: RNNSearchConfig, task) -> "RNNSearchModel":
        """Build from a configuration and the task's dictionaries.

        Raises:
            UserError: if an option, or a combination of two, is invalid.
        """
        mends.mend_fairseq()
        add_younger_options(cfg)
        check_options(cfg)
        if isinstance(task, FairseqTask) and not isinstance(task, AlignmentTask):
            _warn_of(type(task).__name__)
        embedding_dropout, readout_dropout = (
            cfg.dropout if part is None else part
            for part in (cfg.embedding_dropout, cfg.readout_dropout)
        )
        source, target = task.source_dictionary, task.target_dictionary
        encoder = Encoder(
            len(source),
            cfg.encoder_embed_dim,
            cfg.encoder_hidden_size,
            bidirectional=not cfg.fixed_context,
            dropout=embedding_dropout,
            kernels=str(cfg.kernels),
            unit=UNITS[str(cfg.unit)],
        )
        decoder = Decoder(
            len(target),
            cfg.decoder_embed_dim,
            cfg.decoder_hidden_size,
            summary_size=cfg.encoder_hidden_size,
            context_size=cfg.encoder_hidden_size * (1 if cfg.fixed_context else 2),
            alignment_size=None if cfg.fixed_context else cfg.attention_size,
            maxout_size=cfg.maxout_size,
            order=str(cfg.decoder_order),
            factorised_output=cfg.output_layer == "factorised",
            embedding_dropout=embedding_dropout,
            readout_dropout=readout_dropout,
            kernels=str(cfg.kernels),
            unit=UNITS[str(cfg.unit)],
            alignment_model=ALIGNMENTS[str(cfg.alignment_model)],
            target_foresight=cfg.target_foresight,
        )
        compute_dtype = str(cfg.compute_dtype)
        model = cls(
            RNNSearchEncoder(source, encoder, compute_dtype),
            RNNSearchDecoder(target, decoder, compute_dtype),
        )
        initialize(model, INITIALIZATIONS[str(cfg.initialization)])
        if cfg.train_alignment_model_only:
            model.requires_grad_(False)
            decoder.alignment_model.requires_grad_(True)
        return model

    @classmethod
    def from_pretrained(cls, model_name_or_path: str, *args, **options) -> object:
        """Load as fairseq does, from a folder, or from an archive that Python unpacks as data.

        The checkpoint's settings for subwords (``bpe``), tokenizer and search are ignored: they
        could name any local file or an address. Options of these names count.

        Raises:
            UserError: for a checkpoint or an archive that holds anything else.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(mends.reading_as_data())
            if os.path.isfile(model_name_or_path):
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                model_name_or_path = _unpacked(model_name_or_path, folder)
            found = hub_utils.from_pretrained(
                model_name_or_path, *args, archive_map=cls.hub_models(), **options
            )
        cfg = found["args"]
        OmegaConf.set_struct(cfg, False)
        for group in ("bpe", "tokenizer"):
            if group not in options:
                cfg[group] = None
        cfg.generation = OmegaConf.structured(GenerationConfig)
        given = options | (options.get("generation_args") or {})
        for name in cfg.generation.keys() & given.keys():
            cfg.generation[name] = given[name]
        return hub_utils.GeneratorHubInterface(cfg, found["task"], found["models"])

    def check_training(self, *, has_links: bool, begins_from_model: bool, readings: int) -> None:
        """Check that there is something to learn, and warn about what will train poorly.

        Attention that reads the word being aligned can reveal that word to the decoder by where it
        points, and learns this sooner than to align. It cannot if the decoder has already learned
        to read contexts, or if links tell attention where to point.

        Args:
            has_links: whether attention is guided (``--guided-alignment``).
            begins_from_model: whether training starts from a trained model's parameters.
            readings: how often it reads each batch at the same time (R-Drop: twice).

        Raises:
            UserError: if the model needs one of these and lacks it.
        """
        only_alignment_model = not self.decoder.network.embedding.weight.requires_grad
        if only_alignment_model and not begins_from_model:
            raise UserError(
                "--train-alignment-model-only leaves all else as it is: give a trained model with "
                "--finetune-from-model"
            )
        if readings > 1 and not any(
            part.p for part in self.modules() if isinstance(part, nn.Dropout)
        ):
            raise UserError(
                "--rdrop-alpha needs dropout, without which both readings of a batch are the same: "
                "give --dropout 0.3, for example"
            )
        if self.decoder.network.target_foresight and not only_alignment_model and not has_links:
            logger.warning(
                "--target-foresight alone: attention can tell the decoder the word by where it "
                "points, and will not align; add --guided-alignment, or train a model without it "
                "and then --train-alignment-model-only --finetune-from-model"
            )

    def prepare_for_inference_(self, cfg: DictConfig) -> None:
        """Prepare for translation; fairseq calls this, and does not train afterwards.

        Raises:
            UserError: as ``refuse_halves``, and for ``--retain-dropout``.
        """
        refuse_halves(cfg)
        if cfg.generation.retain_dropout:
            raise UserError("--retain-dropout: this model drops nothing out when it translates")
        super().prepare_for_inference_(cfg)
        for side in (self.encoder, self.decoder):
            round_matrices(side)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None) -> NamedTuple:
        """Load a checkpoint's parameters.

        A model with target foresight can load a model without it, and then attends in the same
        way, because V_a is zero.

        Raises:
            UserError: if the checkpoint's dictionaries have other sizes, or its parameters are not
                all finite.
        """
        broken = [n for n, value in state_dict.items() if not torch.isfinite(value).all()]
        if broken:
            raise UserError(
                f"{len(broken)} of {len(state_dict)} parameters hold numbers that are not finite, "
                f"{broken[0]} first: take a checkpoint from before training went wrong"
            )
        for side, network in (("encoder", self.encoder), ("decoder", self.decoder)):
            trained = state_dict.get(f"{side}.network.embedding.weight")
            words = len(network.dictionary)
            if trained is not None and trained.size(0) != words:
                language = "source" if side == "encoder" else "target"
                raise UserError(
                    f"the {language} dictionary has {words} symbols"
                    f"{file_of(network.dictionary)}, but the checkpoint was "
                    f"trained with {trained.size(0)}: give the data folder (or dict files) that "
                    "the checkpoint was trained with"
                )
        if self.decoder.network.target_foresight and _FORESIGHT not in state_dict:
            zero = torch.zeros_like(self.get_parameter(_FORESIGHT))
            state_dict = {**state_dict, _FORESIGHT: zero}
        return super().load_state_dict(state_dict, strict, model_cfg, args)


def _unpacked(archive: str, folder: str) -> str:
    """Unpack an archive into a folder, and return the folder with the model."""
    try:
        with tarfile.open(archive) as members:
            members.extractall(folder, filter="data")
            while members.fileobj.read(2**20):  # gzip compares its checksum at the file's end
                pass
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error) as problem:
        said = str(problem).partition(":\n")[0]
        raise UserError(f"{archive} cannot be unpacked ({said}): name a folder") from problem
    inside = os.listdir(folder)
    only = os.path.join(folder, inside[0]) if len(inside) == 1 else folder
    return only if os.path.isdir(only) else folder


@functools.cache
def _warn_of(task: str) -> None:
    """Warn once if the task is fairseq's own."""
    logger.warning(
        "%s in the place of --task alignment_heatmap goes without the paper's batches and its "
        "limit of words, checks of the data, the fast search, heatmaps and "
        "alignments that do not depend on the batch",
        task,
    )
