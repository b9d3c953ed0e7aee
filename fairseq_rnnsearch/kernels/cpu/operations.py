"""Elementwise operations (gates, alignment model, cost of words) in PyTorch.

``compiled.CompiledOperations`` has them in C, where each function reads memory only once.
Operands of matrix products are in the operands' type; everything else, states and sums above all,
is in float32 or wider ("exact" below).

Rows may be strided; each row, and every other tensor, is contiguous. The equations come from
``gated_unit`` and ``alignment_model`` of ``paper.equations``, the gradients from ``recurrence`` and
``decoder_loop``.
"""

import threading
from functools import cache

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.derived import slices, smoothing

# numbers per block: two megabytes in float32 fit the caches of two cores
BLOCK = 1 << 19


@cache
def _memory() -> threading.local:
    return threading.local()


def scratch(purpose: str, size: int, dtype: torch.dtype) -> Tensor:
    """Return ``(size,)`` numbers in memory that the thread's next call for this purpose reuses.

    Allocating it for every batch would be slow.
    """
    tensors = _memory().__dict__
    memory = tensors.get(purpose)
    if memory is None or memory.dtype != dtype or len(memory) < size:
        with torch.inference_mode(False):  # what translating allocates may serve training later
            memory = tensors[purpose] = torch.empty(size, dtype=dtype, device="cpu")
    return memory[:size]


class Operations:
    """The operations in PyTorch. Sums over a batch are collected in ``parts`` rows.

    The buffer ``unit``, ``(batch, 3n)``, holds one step's [h~, z, r], and ``d_inputs`` the
    gradients of their arguments, [d_a, d_a_z, d_a_r].
    """

    parts = 1

    def unit_gates(
        self,
        inputs: Tensor,
        recurrent: Tensor,
        context: Tensor | None,
        state: Tensor,
        present: Tensor | None,
        unit: Tensor,
        reset_state: Tensor,
    ) -> None:
        """Compute z and r into the last two parts of ``unit``, and r o h into ``reset_state``.

        Args:
            inputs: [x_z, x_r], exact, ``(batch, 2n)``.
            recurrent: [U_z h, U_r h], in the operands' type, ``(batch, 2n)``.
            context: [C_z c, C_r c], likewise, or None.
            state: h, exact, ``(batch, n)``.
            present: exact, ``(batch,)``, 1 for a word, 0 for padding, which keeps the state.
            unit: exact, ``(batch, 3n)``.
            reset_state: in the operands' type, ``(batch, n)``.
        """
        n = state.size(1)
        torch.sigmoid(_sum(inputs, recurrent, context), out=unit[:, n:])
        if present is not None:
            unit[:, n : 2 * n] *= present.unsqueeze(1)
        torch.mul(unit[:, 2 * n :], state, out=reset_state)

    def unit_state(
        self,
        inputs: Tensor,
        recurrent: Tensor,
        context: Tensor | None,
        state: Tensor,
        unit: Tensor,
        new_state: Tensor,
    ) -> None:
        """Compute h~ into the first part of ``unit`` and h' into ``new_state``, ``(batch, n)``.

        Args:
            inputs, recurrent, context: x, U (r o h) and C c, as for ``unit_gates``, ``(batch, n)``.
            state: h.
        """
        proposed, z, _ = unit.split(state.size(1), dim=1)
        torch.tanh(_sum(inputs, recurrent, context), out=proposed)
        torch.lerp(state, proposed, z, out=new_state)

    def unit_backward(
        self,
        d_state: Tensor,
        d_output: Tensor | None,
        d_from_product: Tensor | None,
        unit: Tensor,
        state: Tensor,
        d_inputs: Tensor,
    ) -> None:
        """Compute d_a and d_a_z into the first two parts of ``d_inputs``, from d_h'.

        Args:
            d_state: exact, ``(batch, n)``. With ``d_output`` and ``d_from_product``, which are in
                the operands' type or None, it adds up to d_h'. It becomes d_h' o (1 - z), the part
                of d_h that no product contributes to.
            unit, state: h~, z, r and h, as after ``unit_state``.
            d_inputs: in the operands' type, ``(batch, 3n)``.
        """
        for addend in (d_output, d_from_product):
            if addend is not None:
                d_state += addend
        proposed, z, _ = unit.split(state.size(1), dim=1)
        d_proposed, d_z, _ = d_inputs.split(state.size(1), dim=1)
        d_z.copy_(torch.ops.aten.sigmoid_backward((proposed - state).mul_(d_state), z))
        changed = d_state * z
        d_state -= changed
        d_proposed.copy_(torch.ops.aten.tanh_backward(changed, proposed))

    def unit_backward_reset(
        self, d_state: Tensor, d_reset_state: Tensor, unit: Tensor, state: Tensor, d_inputs: Tensor
    ) -> None:
        """Compute d_a_r into the last part of ``d_inputs``, and add d_q o r to ``d_state``.

        Args:
            d_reset_state: d_q, the gradient of r o h, in the operands' type, ``(batch, n)``.
        """
        n = state.size(1)
        r, d_reset_state = unit[:, 2 * n :], d_reset_state.to(d_state.dtype)
        d_inputs[:, 2 * n :] = torch.ops.aten.sigmoid_backward(d_reset_state * state, r)
        d_state.addcmul_(d_reset_state, r)

    def align(self, keys: Tensor, query: Tensor, v: Tensor, padding: Tensor, alpha: Tensor) -> None:
        """Compute the alignment weights, the softmax of v . tanh(key + query), into ``alpha``.

        There is one row per sentence.

        Args:
            keys: exact, ``(sentences, source, n')``.
            query: in the operands' type, ``(sentences, n')``.
            v: exact, ``(n',)``.
            padding: ``(sentences, source)``, true for padding, whose weight is 0.
            alpha: exact, ``(sentences, source)``.
        """
        query = query.to(keys.dtype).unsqueeze(1)
        for part in slices(len(keys), _at_once(keys[0].numel())):
            hidden = _hidden_units(keys[part], query[part])
            torch.mv(hidden.view(-1, len(v)), v, out=alpha[part].view(-1))
        alpha.masked_fill_(padding, -torch.inf)
        torch.softmax(alpha, dim=-1, out=alpha)

    def align_backward(
        self,
        keys: Tensor,
        query: Tensor,
        v: Tensor,
        alpha: Tensor,
        d_alpha: Tensor,
        d_keys: Tensor,
        d_v: Tensor,
        d_query: Tensor,
    ) -> None:
        """Compute the query's gradient into ``d_query``; add to ``d_keys`` and ``d_v``.

        Hidden units are recomputed, see ``decoder_loop``.

        Args:
            keys, query, v, alpha: as for ``align``.
            d_alpha: exact, ``(sentences, source)``.
            d_keys: exact, ``(sentences, source, n')``.
            d_v: exact, ``(parts, n')``.
            d_query: in the operands' type, ``(sentences, n')``.
        """
        d_energies = torch._softmax_backward_data(d_alpha, alpha, -1, alpha.dtype)
        query = query.to(keys.dtype).unsqueeze(1)
        for part in slices(len(keys), _at_once(keys[0].numel())):
            hidden = _hidden_units(keys[part], query[part])
            d_v[0].addmv_(hidden.flatten(0, 1).T, d_energies[part].view(-1))
            slope = torch.ops.aten.tanh_backward(d_energies[part].unsqueeze(-1), hidden).mul_(v)
            d_keys[part] += slope
            d_query[part] = slope.sum(dim=1)

    def cost_of_words(
        self,
        logits: Tensor,
        words: Tensor,
        label_smoothing: float,
        d_logits: Tensor | None,
        d_bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the cost and negative log-likelihood, each summed over the rows.

        Args:
            logits: in the operands' type, ``(rows, symbols)``.
            words: ``(rows,)``, each below ``symbols``.
            d_logits: receives the logits' gradients, in the operands' type; None: not wanted.
            d_bias: the sums of these are added to it, exact, ``(parts, symbols)``.

        Raises:
            IndexError: if a word is out of range.
        """
        check_words(words, logits.size(1))
        cost = nll = d_bias.new_zeros(())
        words, (kept, spread) = words.unsqueeze(1), smoothing(label_smoothing, logits.size(1))
        for rows in slices(len(logits), max(1, BLOCK // 2 // logits.size(1))):
            block = logits[rows].to(d_bias.dtype)
            # subtract the largest first: beside it, the logarithm would vanish
            block = block - block.amax(dim=1, keepdim=True)
            p = torch.softmax(block, dim=1)
            # unlike the word's, the largest probability is never too small for a logarithm
            log_sum = -p.amax(dim=1).log()
            block_nll = log_sum.sum() - block.gather(1, words[rows]).sum()
            nll = nll + block_nll
            cost = cost + kept * block_nll
            if label_smoothing:
                cost = cost + spread * (logits.size(1) * log_sum.sum() - block.sum())
            if d_logits is not None:
                p -= spread
                p.scatter_add_(1, words[rows], p.new_full((1, 1), -kept).expand_as(words[rows]))
                d_bias[0] += p.sum(dim=0)
                d_logits[rows] = p
        return cost, nll


def check_words(words: Tensor, symbols: int) -> None:
    """Check that all words are below ``symbols``.

    Raises:
        IndexError: if not; it names the smallest and the largest word.
    """
    if len(words):
        least, most = words.aminmax()
        if not 0 <= least <= most < symbols:
            raise IndexError(f"words {least} to {most} of {symbols}")


def _at_once(numbers: int) -> int:
    """Return how many sentences, of so many numbers each, fit into one block of hidden units."""
    return max(1, BLOCK // max(1, numbers))


def _sum(inputs: Tensor, recurrent: Tensor, context: Tensor | None) -> Tensor:
    total = inputs + recurrent
    return total if context is None else total.add_(context)


def _hidden_units(keys: Tensor, query: Tensor) -> Tensor:
    """Return tanh(key + query), in memory that the next call reuses."""
    hidden = scratch("hidden units", keys.numel(), keys.dtype).view(keys.shape)
    return torch.add(keys, query, out=hidden).tanh_()
