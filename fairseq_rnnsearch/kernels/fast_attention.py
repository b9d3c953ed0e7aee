"""The alignment model inside the decoder's loop, forwards and backwards.

A step touches batch x source x n' numbers, several times: the hidden units are kept in one buffer
for all steps, and computed again in the backward pass, because storing them would take 290 MB in
an update of the paper's size and as long as computing them.

With g = sigma(2x), tanh(x) = 2g - 1: see ``fast_unit``. Then

    e_ij = v_a . (2 g_ij - 1)

and as the softmax over j does not see a constant, 2 v_a . g_ij will do. Energies and hidden units
are in float32 or wider: differences near g = 1/2 would be lost in bfloat16.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.fast_unit import _sigmoid_backward, accurate_type

_softmax_backward = torch.ops.aten._softmax_backward_data.out


class Attention:
    """Buffers for the positions of one batch.

    Args:
        keys: ``(batch, source, n')``.
        padding: ``(batch, source)``.
        v_a: ``(n',)``.
    """

    def __init__(self, keys: Tensor, padding: Tensor, v_a: Tensor) -> None:
        dtype = accurate_type(keys.dtype)
        self._keys = keys.to(dtype) * 2
        self._v = v_a.to(dtype)
        self._mask = torch.zeros_like(padding, dtype=dtype).masked_fill_(padding, -torch.inf)
        self._g = torch.empty_like(self._keys)
        self._e = torch.empty_like(self._mask)

    def weights(self, query: Tensor, out: Tensor) -> None:
        """alpha_i, ``(batch, source)``, from W_a s, ``(batch, n')``."""
        self._hidden_units(query)
        torch.addmv(
            self._mask.view(-1), self._g.flatten(0, 1), self._v, alpha=2, out=self._e.view(-1)
        )
        torch.softmax(self._e, dim=-1, out=out)

    def _hidden_units(self, query: Tensor) -> None:
        torch.add(self._keys, query.unsqueeze(1), alpha=2, out=self._g).sigmoid_()

    def start_backward(self) -> None:
        self._d_keys = torch.zeros_like(self._keys)
        self._d_v = torch.zeros_like(self._v)

    def weights_backward(self, d_alpha: Tensor, alpha: Tensor, query: Tensor, out: Tensor) -> None:
        """The gradient of the query, ``(batch, n')``; those of keys and v_a are added up."""
        self._hidden_units(query)
        de = _softmax_backward(d_alpha, alpha, -1, alpha.dtype, grad_input=self._e)
        # zero but for rounding, which counts where g is nearly 1/2
        self._d_v -= de.sum() / 2
        self._d_v.addmv_(self._g.flatten(0, 1).T, de.view(-1))
        _sigmoid_backward(de.unsqueeze(-1), self._g, grad_input=self._g)
        self._d_keys += self._g
        torch.mul(self._g.sum(dim=1), self._v * 4, out=out)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Of keys and v_a, after all steps."""
        return self._d_keys.mul_(self._v * 4), self._d_v * 2
