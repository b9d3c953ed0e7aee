"""The alignment model inside the decoder's loop, forwards and backwards.

A step touches batch x source x n' hidden units, several times: they are computed for a few
sentences at a time, so that they stay in the cache, and again in the backward pass, because storing
them would take 290 MB in an update of the paper's size and as long as computing them.

With g = sigma(2x), tanh(x) = 2g - 1: see ``fast_unit``. Then

    e_ij = v_a . (2 g_ij - 1)

and as the softmax over j does not see a constant, 2 v_a . g_ij will do. Energies and hidden units
are in float32 or wider: differences near g = 1/2 would be lost in bfloat16.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.fast_unit import _sigmoid_backward, accurate_type

# hidden units at a time: two megabytes in float32, for the caches of two cores
UNITS = 1 << 19

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
        self._e = torch.empty_like(self._mask)
        sentences = max(1, UNITS // max(1, keys.shape[1:].numel()))
        self._g = torch.empty_like(self._keys[:sentences])
        starts = range(0, len(keys), sentences)
        self._parts = [slice(start, start + sentences) for start in starts]

    def weights(self, query: Tensor, out: Tensor) -> None:
        """alpha_i, ``(batch, source)``, from W_a s, ``(batch, n')``."""
        for part in self._parts:
            g = self._hidden_units(query, part)
            mask, e = (x[part].view(-1) for x in (self._mask, self._e))
            torch.addmv(mask, g.flatten(0, 1), self._v, alpha=2, out=e)
        torch.softmax(self._e, dim=-1, out=out)

    def _hidden_units(self, query: Tensor, part: slice) -> Tensor:
        keys = self._keys[part]
        g = self._g[: len(keys)]
        return torch.add(keys, query[part].unsqueeze(1), alpha=2, out=g).sigmoid_()

    def start_backward(self) -> None:
        self._d_keys = torch.zeros_like(self._keys)
        self._d_v = torch.zeros_like(self._v)

    def weights_backward(self, d_alpha: Tensor, alpha: Tensor, query: Tensor, out: Tensor) -> None:
        """The gradient of the query, ``(batch, n')``; those of keys and v_a are added up."""
        de = _softmax_backward(d_alpha, alpha, -1, alpha.dtype, grad_input=self._e)
        # zero but for rounding, which counts where g is nearly 1/2
        self._d_v -= de.sum() / 2
        for part in self._parts:
            g = self._hidden_units(query, part)
            self._d_v.addmv_(g.flatten(0, 1).T, de[part].view(-1))
            _sigmoid_backward(de[part].unsqueeze(-1), g, grad_input=g)
            self._d_keys[part] += g
            torch.sum(g, dim=1, out=out[part])
        out.mul_(self._v * 4)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Of keys and v_a, after all steps."""
        return self._d_keys.mul_(self._v * 4), self._d_v * 2
