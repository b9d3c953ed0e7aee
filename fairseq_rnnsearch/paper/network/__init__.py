"""The model in pure PyTorch: encoder, decoder and the initialisation of their parameters."""

from fairseq_rnnsearch.paper.network.decoder import DECODER_ORDERS, Decoder
from fairseq_rnnsearch.paper.network.encoder import EncodedSource, Encoder
from fairseq_rnnsearch.paper.network.initialization import INITIALIZATIONS, initialize

__all__ = [
    "DECODER_ORDERS",
    "INITIALIZATIONS",
    "Decoder",
    "EncodedSource",
    "Encoder",
    "initialize",
]
