"""The model's options: names, valid values, defaults."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Optional

from fairseq_rnnsearch.checks import COMPUTE_DTYPES, excludes
from fairseq_rnnsearch.kernels import KERNELS
from fairseq_rnnsearch.network import DECODER_ORDERS

# fairseq's options; it adds the short ones to the long ones
_HALF_PRECISION = ("memory_efficient_fp16", "fp16", "memory_efficient_bf16", "bf16", "amp")


def _choice(names: Iterable[str]) -> type[StrEnum]:
    """Return the type of an option with these values, which fairseq's parser offers."""
    return StrEnum("Choice", {name: name for name in names})


@dataclass
class ModelOptions:
    """Sizes and switches; the defaults are the paper's (appendix A.2.3)."""

    encoder_embed_dim: int = field(
        default=620, metadata={"help": "size m of the source embedding (paper: 620)"}
    )
    encoder_hidden_size: int = field(
        default=1000, metadata={"help": "units n of each encoder direction (paper: 1000)"}
    )
    decoder_embed_dim: int = field(
        default=620, metadata={"help": "size m of the target embedding (paper: 620)"}
    )
    decoder_hidden_size: int = field(
        default=1000, metadata={"help": "units n of the decoder (paper: 1000)"}
    )
    attention_size: int = field(
        default=1000, metadata={"help": "hidden units n' of the alignment model (paper: 1000)"}
    )
    maxout_size: int = field(
        default=500, metadata={"help": "maxout units l of the deep output (paper: 500)"}
    )
    decoder_order: _choice(DECODER_ORDERS) = field(
        default="program",
        metadata={"help": "order inside one decoder step: the authors' program, or as printed in "
                  "the paper's appendix A.2.2 or section 3.1"},
    )  # fmt: skip
    output_layer: _choice(["single", "factorised"]) = field(
        default="single",
        metadata={"help": "W_o as one matrix (paper) or as the authors' product of two"},
    )
    fixed_context: bool = field(
        default=False,
        metadata={"help": "RNNencdec: the context is always the last forward state"},
    )
    initialization: _choice(["appendix", "uniform"]) = field(
        default="appendix",
        metadata={"help": "initialisation: as in the paper's appendix B.1, or uniform from -0.1 to "
                  "0.1, as in fairseq's lstm"},
    )  # fmt: skip
    dropout: float = field(
        default=0.0,
        metadata={"help": "dropout of embedded words and of the maxout layer (paper: none)"},
    )
    embedding_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout of embedded words (default: --dropout)"}
    )
    readout_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout of the maxout layer (default: --dropout)"}
    )
    kernels: _choice(KERNELS) = field(
        default="auto",
        metadata={"help": "implementation of the recurrences: fast (CPU), gpu, reference (plain, "
                  "runs anywhere), or auto: fast or gpu if they can run the model"},
    )  # fmt: skip
    compute_dtype: _choice(COMPUTE_DTYPES) = field(
        default="float32",
        metadata={"help": "type of the operands of matrix products (tf32: on NVIDIA GPUs from "
                  "Ampere on); parameters, optimizer and checkpoints stay float32, and so do sums "
                  "(states, softmax, cost)",
                  "check": excludes(
                      dict.fromkeys(_HALF_PRECISION, False),
                      "this model computes in narrow types by its own option, "
                      "--compute-dtype bfloat16",
                  )},
    )  # fmt: skip
