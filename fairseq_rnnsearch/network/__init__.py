"""The whole network with its dictionaries and options, without fairseq.

``encoder`` and ``decoder`` hold the parameters, hand their loops over time to ``kernels``, and read
batches as searches, scorers and fairseq hand them in. ``plugin.model`` gives fairseq its view.
"""

from fairseq_rnnsearch.network.decoder import DECODER_ORDERS, Decoder
from fairseq_rnnsearch.network.encoder import EncodedSource, Encoder, EncoderOut
from fairseq_rnnsearch.network.model_options import ModelOptions
from fairseq_rnnsearch.network.translation_model import TranslationModel, initialize, networks_of

__all__ = [
    "DECODER_ORDERS",
    "Decoder",
    "EncodedSource",
    "Encoder",
    "EncoderOut",
    "ModelOptions",
    "TranslationModel",
    "initialize",
    "networks_of",
]
