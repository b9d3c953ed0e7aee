"""Initialisation of the parameters: a table per scheme, appendix B.1's first.

The first row whose pattern matches a parameter's name applies.
"""

from collections.abc import Callable
from fnmatch import fnmatch

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels.accuracy import accurate_type


def orthogonal_blocks(parameter: Tensor) -> None:
    """Fill each square block of rows with a random orthogonal matrix."""
    n = parameter.size(1)
    for block in parameter.split(n):
        # LAPACK has no half-precision factorisation
        start = torch.empty(n, n, dtype=accurate_type(block.dtype))
        block.copy_(nn.init.orthogonal_(start))


def gaussian(standard_deviation: float) -> Callable[[Tensor], object]:
    """Return a function that fills a parameter with normal random numbers around zero."""
    return lambda parameter: parameter.normal_(0.0, standard_deviation)


Table = tuple[tuple[str, str, Callable[[Tensor], object]], ...]

APPENDIX_B1: Table = (
    # name                              in the paper                          how it starts
    ("*recurrent_*", "U, U_z, U_r of all units", orthogonal_blocks),
    ("*alignment_model.state_weight", "W_a", gaussian(0.001)),
    ("*alignment_model.annotation_weight", "U_a", gaussian(0.001)),
    ("*alignment_model.energy_weight", "V_a (v_a)", nn.init.zeros_),
    ("*bias", "all bias vectors", nn.init.zeros_),
    ("*", "any other weight matrix", gaussian(0.01)),
)

FAIRSEQ_LSTM: Table = (("*", "all of fairseq's lstm", lambda p: p.uniform_(-0.1, 0.1)),)

INITIALIZATIONS = {"appendix": APPENDIX_B1, "uniform": FAIRSEQ_LSTM}  # by --initialization


@torch.no_grad()
def initialize(module: nn.Module, table: Table = APPENDIX_B1) -> None:
    """Initialise every parameter of ``module`` in place from a table."""
    for name, parameter in module.named_parameters():
        for pattern, _, fill in table:
            if fnmatch(name, pattern):
                fill(parameter)
                break
