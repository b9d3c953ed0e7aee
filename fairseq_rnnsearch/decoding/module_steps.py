"""The steps of a search for modules of torch: by the engine where it can, or else by torch."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from fairseq_rnnsearch.decoding import engine_networks
from fairseq_rnnsearch.decoding.engine_networks import Network
from fairseq_rnnsearch.decoding.search.beam_search import Begin
from fairseq_rnnsearch.decoding.search.torch_steps import TorchSteps
from fairseq_rnnsearch.engine.parameters import Parameters
from fairseq_rnnsearch.kernels.cached import cached_by_weights
from fairseq_rnnsearch.network import Decoder, Encoder
from fairseq_rnnsearch.network.translation_model import custom_module


def begin_of(models: Sequence[torch.nn.Module], pad: int, symbols: Any) -> Begin:
    """Return what begins a search by modules that offer steps; see `beam_search.search`.

    Args:
        pad: the source's padding.
        symbols: see `TorchSteps`.
    """
    networks = networks_of(models)
    if networks is None:
        return lambda sources, width: TorchSteps(models, sources, pad, symbols)
    return partial(engine_networks.begin, networks)


def networks_of(models: Sequence[torch.nn.Module]) -> list[Network] | None:
    """Return modules in the engine, or None if it cannot run them all."""
    networks = [network_of(model) for model in models]
    return None if any(network is None for network in networks) else networks


def network_of(model: torch.nn.Module) -> Network | None:
    """Return a module in the engine, kept until its parameters change, or None.

    The engine runs the paper's parts on a CPU in float32 or float64. It knows nothing of dropout
    and calls no hooks.
    """
    encoder, decoder = model.encoder, model.decoder
    if not (isinstance(encoder, Encoder) and isinstance(decoder, Decoder)) or custom_module(model):
        return None
    if any(x.training or x._forward_hooks or x._forward_pre_hooks for x in model.modules()):
        return None
    names, parameters = zip(*model.named_parameters(remove_duplicate=False), strict=True)
    fits = {x.dtype for x in parameters} in ({torch.float32}, {torch.float64}) and (
        all(x.is_cpu for x in parameters)
        and not torch.is_autocast_enabled("cpu")
        and "reference" not in (encoder.kernels, decoder.kernels)
        and encoder.compute_dtype == decoder.compute_dtype
    )
    if not fits:
        return None
    words = decoder.dictionary
    symbols = words.pad(), words.eos(), words.unk()
    described = names, decoder.compute_dtype, decoder.order, *symbols
    return cached_by_weights(_network, parameters, *described)


def _network(
    weights: Sequence[torch.Tensor], names: Sequence[str], compute_dtype: str, *described: Any
) -> Network:
    """Make an engine's network of a module's parameters; ``described`` as in `Parameters`."""
    arrays = dict(zip(names, (x.numpy() for x in weights), strict=True))
    return engine_networks.network_of(Parameters(arrays, *described), compute_dtype)
