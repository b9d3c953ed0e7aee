"""The gated hidden unit (appendix A.1.1), in the encoder and the decoder alike.

    z = sigma(x_z + U_z h)                  update gate
    r = sigma(x_r + U_r h)                  reset gate
    h~ = tanh(x + U [r o h])                proposed state
    h' = (1 - z) o h + z o h~               new state

``x``, ``x_z`` and ``x_r`` stand for everything that does not depend on h: W e(word) with the
bias of the proposed state, and in the decoder the context's C c. The gates have no bias.

``torch.nn.GRU`` is another unit: it resets after the recurrent product and its z keeps the old
state where this one replaces it.
"""

import torch
from torch import Tensor


def gated_unit(inputs: Tensor, h: Tensor, U_gates: Tensor, U: Tensor) -> Tensor:
    """One step.

    The state may be wider than the operands of products, so that small changes of it stay: then
    everything but these operands is of its type.

    Args:
        inputs: ``(batch, 3n)``, the parts [proposed, update, reset] that do not depend on h.
        h: previous state, ``(batch, n)``.
        U_gates: ``(2n, n)``, U_z above U_r.
        U: ``(n, n)``.

    Returns:
        The new state, ``(batch, n)``.
    """
    n = h.size(-1)
    x, x_zr = inputs.to(h.dtype).split((n, 2 * n), dim=-1)
    z, r = torch.sigmoid(x_zr + h.to(U_gates.dtype) @ U_gates.T).chunk(2, dim=-1)
    proposed = torch.tanh(x + (r * h).to(U.dtype) @ U.T)
    return torch.lerp(h, proposed, z)
