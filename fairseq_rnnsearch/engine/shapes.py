"""The shapes of a model's parameters, by its options: C trusts its pointers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.checks import DECODER_ORDERS

SCALE = ".scale"  # behind the name of a matrix that is stored in 8 bits

# options of `network.ModelOptions` on which no shape depends
_OTHERS = {"initialization", "dropout", "embedding_dropout", "readout_dropout"}
_OTHERS |= {"kernels", "compute_dtype"}


def shapes_of(
    source: int,
    target: int,
    *,
    encoder_embed_dim: int = 620,
    encoder_hidden_size: int = 1000,
    decoder_embed_dim: int = 620,
    decoder_hidden_size: int = 1000,
    attention_size: int = 1000,
    maxout_size: int = 500,
    decoder_order: str = "program",
    output_layer: str = "single",
    fixed_context: bool = False,
    **others: Any,
) -> dict[str, tuple[int, ...]]:
    """Return the shapes, as the modules of ``network`` have them.

    Args:
        source, target: sizes of the dictionaries; the rest as in `network.ModelOptions`.

    Raises:
        ValueError: an option is not of this model.
    """
    if unknown := others.keys() - _OTHERS:
        raise ValueError(f"there is no option {min(unknown)}")
    if decoder_order not in DECODER_ORDERS:
        raise ValueError(f"decoder order must be one of {DECODER_ORDERS}, not {decoder_order!r}")
    summary, state, embedded = encoder_hidden_size, decoder_hidden_size, decoder_embed_dim
    context = summary if fixed_context else 2 * summary
    shapes = {
        "encoder.embedding.weight": (source, encoder_embed_dim),
        "encoder.embedding.bias": (encoder_embed_dim,),
        **_unit("encoder.forward_unit", encoder_embed_dim, summary),
        "decoder.initial_weight": (state, summary),
        "decoder.initial_bias": (state,),
        "decoder.embedding.weight": (target, embedded),
        "decoder.embedding.bias": (embedded,),
        **_unit("decoder.unit", embedded, state),
        "decoder.unit.context_weight": (3 * state, context),
        "decoder.readout.state_weight": (2 * maxout_size, state),
        "decoder.readout.word_weight": (2 * maxout_size, embedded),
        "decoder.readout.context_weight": (2 * maxout_size, context),
        "decoder.readout.bias": (2 * maxout_size,),
        "decoder.output.weight": (target, maxout_size),
        "decoder.output.bias": (target,),
    }
    if not fixed_context:
        shapes |= {
            **_unit("encoder.backward_unit", encoder_embed_dim, summary),
            "decoder.alignment_model.state_weight": (attention_size, state),
            "decoder.alignment_model.annotation_weight": (attention_size, context),
            "decoder.alignment_model.energy_weight": (attention_size,),
        }
    if output_layer == "factorised":
        shapes |= {
            "decoder.output.inner_weight": (embedded, maxout_size),
            "decoder.output.weight": (target, embedded),
        }
    return shapes


def check_shapes(parameters: Mapping[str, NDArray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that parameters are those of a model, and 8-bit ones have a scale for each row.

    Raises:
        ValueError: one is missing, unexpected or of another shape.
    """
    rounded = {
        name for name in shapes.keys() & parameters.keys() if parameters[name].dtype == np.int8
    }
    expected = {**shapes, **{name + SCALE: shapes[name][:-1] for name in rounded}}
    found = {name: one.shape for name, one in parameters.items()}
    for name in expected | found:
        if expected.get(name) != found.get(name):
            raise ValueError(
                f"{name} has the shape {found.get(name)}, and options and dictionaries give "
                f"{expected.get(name)}"
            )


def _unit(name: str, inputs: int, size: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{name}.input_weight": (3 * size, inputs),
        f"{name}.input_bias": (size,),
        f"{name}.recurrent_gates": (2 * size, size),
        f"{name}.recurrent_proposed": (size, size),
    }
