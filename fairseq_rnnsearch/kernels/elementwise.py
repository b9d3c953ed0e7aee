"""What is no matrix product: the squashing functions, the alignment model and the cost of words.

``Elementwise`` is made of torch's operations, ``compiled.Compiled`` is the same in C, where each
function passes through memory once. Matrices that are multiplied are in the type of the products'
operands; everything else, states and sums above all, is in float32 or wider ("exact" below).

Rows may lie apart; numbers of a row, and everything else, stand together. The three parts of a
unit's ``(batch, 3n)`` buffer are [proposed, update, reset]; the equations are those of
``equations.gated_unit`` and ``equations.alignment_model``.
"""

import threading

import torch
from torch import Tensor

# numbers at a time, for the caches of two cores: two megabytes in float32
BLOCK = 1 << 19

_kept = threading.local()


def accurate_type(dtype: torch.dtype) -> torch.dtype:
    """float32 or wider: for sums and for differences of nearly equal numbers."""
    return torch.promote_types(dtype, torch.float32)


def scratch(name: str, size: int, dtype: torch.dtype) -> Tensor:
    """Memory that is the same in every batch, one for each thread: new memory is slow."""
    memory = getattr(_kept, name, None)
    if memory is None or memory.dtype != dtype or len(memory) < size:
        memory = torch.empty(size, dtype=dtype)
        setattr(_kept, name, memory)
    return memory[:size]


def slices(length: int, step: int) -> list[slice]:
    """Parts of ``length`` rows, as many in each as ``step``, but for the last."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


class Elementwise:
    """By torch. ``parts`` is the number of rows that sums over a batch are collected in."""

    parts = 1

    def unit_gates(
        self,
        x: Tensor,
        y: Tensor,
        more: Tensor | None,
        h: Tensor,
        present: Tensor | None,
        a: Tensor,
        reset_h: Tensor,
    ) -> None:
        """Update and reset gate.

        Args:
            x: exact, ``(batch, 2n)``.
            y, more: added to it, in the operands' type.
            h: previous state, exact, ``(batch, n)``.
            present: exact, ``(batch,)``, 1 for a word, 0 for padding, which leaves the state as it
                was.
            a: z and r go into its last two parts, exact.
            reset_h: r h goes here, in the operands' type.
        """
        n = h.size(1)
        torch.sigmoid(_sum(x, y, more), out=a[:, n:])
        if present is not None:
            a[:, n : 2 * n] *= present.unsqueeze(1)
        torch.mul(a[:, 2 * n :], h, out=reset_h)

    def unit_state(
        self, x: Tensor, y: Tensor, more: Tensor | None, h: Tensor, a: Tensor, out: Tensor
    ) -> None:
        """The new state, ``(batch, n)``, from x + U (r h); h~ goes into the first part of ``a``."""
        proposed, z, _ = a.split(h.size(1), dim=1)
        torch.tanh(_sum(x, y, more), out=proposed)
        torch.lerp(h, proposed, z, out=out)

    def unit_backward(
        self,
        dh: Tensor,
        d_out: Tensor | None,
        more: Tensor | None,
        a: Tensor,
        h: Tensor,
        da: Tensor,
    ) -> None:
        """From the gradient of the new state to those of what h~ and z were made of.

        Args:
            dh: exact, ``(batch, n)``. With ``d_out`` and ``more`` it is the gradient of the new
                state; it becomes the part of the previous state's that passes by all products.
            a, h: as after ``unit_state``.
            da: the two gradients go into its first parts, in the operands' type.
        """
        for addend in (d_out, more):
            if addend is not None:
                dh += addend
        proposed, z, _ = a.split(h.size(1), dim=1)
        d_proposed, dz, _ = da.split(h.size(1), dim=1)
        dz.copy_(torch.ops.aten.sigmoid_backward((proposed - h).mul_(dh), z))
        changed = dh * z
        dh -= changed
        d_proposed.copy_(torch.ops.aten.tanh_backward(changed, proposed))

    def unit_backward_reset(
        self, dh: Tensor, d_reset_h: Tensor, a: Tensor, h: Tensor, da: Tensor
    ) -> None:
        """From the gradient of r h, in the operands' type, to that of what r was made of."""
        n = h.size(1)
        r, d_reset_h = a[:, 2 * n :], d_reset_h.to(dh.dtype)
        da[:, 2 * n :] = torch.ops.aten.sigmoid_backward(d_reset_h * h, r)
        dh.addcmul_(d_reset_h, r)

    def align(self, keys: Tensor, query: Tensor, v: Tensor, padding: Tensor, out: Tensor) -> None:
        """The alignment weights, a softmax of v . tanh(key + query).

        Args:
            keys: exact, ``(sentences, source, n')``.
            query: in the operands' type, ``(rows, n')``, as many rows for each sentence.
            v: exact, ``(n',)``.
            padding: ``(sentences, source)``, true where there is no word: its weight is 0.
            out: ``(rows, source)``, exact.
        """
        sentences, source, _ = keys.shape
        rows = out.view(sentences, -1, source)
        query = query.unflatten(0, (sentences, -1)).to(keys.dtype)
        for part in slices(sentences, max(1, BLOCK // max(1, rows[0].numel() * len(v)))):
            hidden = _hidden_units(keys[part].unsqueeze(1), query[part].unsqueeze(2))
            torch.mv(hidden.view(-1, len(v)), v, out=rows[part].view(-1))
        rows.masked_fill_(padding.unsqueeze(1), -torch.inf)
        torch.softmax(out, dim=-1, out=out)

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
        """From the gradient of the weights to that of the query, for one row a sentence.

        The gradients of keys, ``(sentences, source, n')``, and of v, ``(parts, n')``, are added up.
        Hidden units are computed again, because storing them would take 290 MB in an update of the
        paper's size and as long as computing them.
        """
        de = torch._softmax_backward_data(d_alpha, alpha, -1, alpha.dtype)
        query = query.to(keys.dtype).unsqueeze(1)
        for part in slices(len(keys), max(1, BLOCK // max(1, keys[0].numel()))):
            hidden = _hidden_units(keys[part], query[part])
            d_v[0].addmv_(hidden.flatten(0, 1).T, de[part].view(-1))
            slope = torch.ops.aten.tanh_backward(de[part].unsqueeze(-1), hidden).mul_(v)
            d_keys[part] += slope
            d_query[part] = slope.sum(dim=1)

    def cost_of_words(
        self, x: Tensor, words: Tensor, label_smoothing: float, d_x: Tensor | None, d_bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Cost and negative log-likelihood of some rows, each a sum.

        Args:
            x: logits, in the operands' type, ``(rows, symbols)``.
            words: ``(rows,)``, each below ``symbols``.
            d_x: their gradients go here, in the operands' type, where they are wanted.
            d_bias: sums of these are added, exact, ``(parts, symbols)``.

        Raises:
            IndexError: for words that are no symbols.
        """
        check_words(words, x.size(1))
        cost = nll = d_bias.new_zeros(())
        words, (kept, spread) = words.unsqueeze(1), smoothing(label_smoothing, x.size(1))
        for rows in slices(len(x), max(1, BLOCK // 2 // x.size(1))):
            block = x[rows].to(d_bias.dtype)
            # beside a large logit, which is subtracted from each first, the logarithm would be lost
            block = block - block.amax(dim=1, keepdim=True)
            p = torch.softmax(block, dim=1)
            # the largest probability, unlike that of the word, is never too small for a logarithm
            log_sum = -p.amax(dim=1).log()
            block_nll = log_sum.sum() - block.gather(1, words[rows]).sum()
            nll = nll + block_nll
            cost = cost + kept * block_nll
            if label_smoothing:
                cost = cost + spread * (x.size(1) * log_sum.sum() - block.sum())
            if d_x is not None:
                p -= spread
                p.scatter_add_(1, words[rows], p.new_full((1, 1), -kept).expand_as(words[rows]))
                d_bias[0] += p.sum(dim=0)
                d_x[rows] = p
        return cost, nll

    def log_softmax(self, x: Tensor, temperature: float, out: Tensor) -> None:
        """Of x / temperature; x is in the operands' type and ``out`` exact."""
        x = x.to(out.dtype)
        if temperature != 1:  # a division rounds, of large numbers more than their differences are
            x = (x - x.amax(dim=-1, keepdim=True)) / temperature
        torch.log_softmax(x, dim=-1, out=out)


def check_words(words: Tensor, symbols: int) -> None:
    """
    Raises:
        IndexError: for words that are no symbols.
    """
    if len(words):
        least, most = words.aminmax()
        if not 0 <= least <= most < symbols:
            raise IndexError(f"words {least} to {most} of {symbols}")


def smoothing(label_smoothing: float, symbols: int) -> tuple[float, float]:
    """Weights of the word's cost and of everyone's; fairseq spreads over the other symbols."""
    spread = label_smoothing / (symbols - 1)
    return 1 - label_smoothing - spread, spread


def _sum(x: Tensor, y: Tensor, more: Tensor | None) -> Tensor:
    x = x + y
    return x if more is None else x.add_(more)


def _hidden_units(keys: Tensor, query: Tensor) -> Tensor:
    """tanh(key + query) in memory that the next call uses again."""
    shape = torch.broadcast_shapes(keys.shape, query.shape)
    hidden = scratch("hidden units", shape.numel(), keys.dtype).view(shape)
    return torch.add(keys, query, out=hidden).tanh_()
