"""The decoder's loop, attention included, with a backward pass derived by hand.

Same function as in ``reference``. Products with the same state are one product, [U_z; U_r; W_a]
times s, and so are backwards those with a step's gradients, ``(batch, 3n + n')`` of [proposed,
update, reset, query]. The weighted sums of annotations, small products that are no faster in
bfloat16, are in float32 throughout: the softmax's gradient is a difference of their gradients.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.compiled import elementwise
from fairseq_rnnsearch.kernels.elementwise import accurate_type
from fairseq_rnnsearch.kernels.fast_passes import (
    apply,
    refuse_second_order,
    summed_product,
    without_autocast,
)
from fairseq_rnnsearch.kernels.interface import DecoderWeights, Memory
from fairseq_rnnsearch.kernels.packed import batch_product


def decoder_recurrence(
    word_inputs: Tensor, initial: Tensor, steps: int, memory: Memory, weights: DecoderWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """See ``reference.decoder_recurrence``."""
    return apply(
        _DecoderRecurrence,
        steps,
        memory.padding,
        word_inputs,
        initial,
        memory.annotations,
        memory.keys,
        *weights.recurrent,
        weights.context,
        weights.state,
        weights.energy,
    )


class _DecoderRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        operands: torch.dtype | None,
        steps: int,
        padding: Tensor,
        word_inputs: Tensor,
        initial: Tensor,
        annotations: Tensor,
        keys: Tensor,
        U_gates: Tensor,
        U: Tensor,
        C: Tensor,
        W_a: Tensor,
        v_a: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        operands = operands or initial.dtype
        U_gates, U, C, W_a = (x.to(operands) for x in (U_gates, U, C, W_a))
        updates, B, n = len(word_inputs), *initial.shape
        a = U.new_empty(updates, B, 3 * n, dtype=accurate_type(operands))
        states = a.new_empty(updates + 1, B, n)
        states[0] = initial
        contexts = a.new_empty(steps, B, annotations.size(-1))
        alignment = a.new_empty(steps, *padding.shape)
        queries = U.new_empty(steps, B, len(W_a))
        word_inputs, annotations, keys, v_a = (
            x.to(a.dtype).contiguous() for x in (word_inputs, annotations, keys, v_a)
        )
        padding, reset_s = padding.contiguous(), U.new_empty(B, n)
        times_U_gates_and_W_a, times_C, times_U = (
            batch_product(x) for x in (torch.cat((U_gates, W_a)), C, U)
        )
        ops = elementwise(operands)
        for i in range(steps):
            s = states[i]
            gates, queries[i] = times_U_gates_and_W_a(s.to(operands)).split((2 * n, len(W_a)), 1)
            ops.align(keys, queries[i], v_a, padding, alignment[i])
            torch.bmm(alignment[i].unsqueeze(1), annotations, out=contexts[i].unsqueeze(1))
            if i < updates:
                x, c = word_inputs[i], times_C(contexts[i].to(operands))
                ops.unit_gates(x[:, n:], gates, c[:, n:], s, None, a[i], reset_s)
                ops.unit_state(x[:, :n], times_U(reset_s), c[:, :n], s, a[i], states[i + 1])
        ctx.save_for_backward(
            *(a, states, contexts, alignment, queries, annotations, keys),
            *(U_gates, U, C, W_a, v_a),
        )
        # the state before the first step is as wide as the parameters, and so is the alignment
        alignment = alignment.to(initial.dtype).transpose(0, 1)
        return states.to(operands), contexts.to(operands), alignment

    @staticmethod
    @without_autocast
    def backward(
        ctx: torch.autograd.function.FunctionCtx,
        d_states: Tensor | None,
        d_contexts: Tensor | None,
        d_alignment: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        saved = ctx.saved_tensors
        a, states, contexts, alignment, queries, annotations, keys, U_gates, U, C, W_a, v_a = saved
        updates, B, width = a.shape
        steps, n, dtype = len(contexts), width // 3, U.dtype
        times_U_gates_and_W_a, times_C, times_U = (
            batch_product(x.T) for x in (torch.cat((U_gates, W_a)), C, U)
        )
        ops = elementwise(dtype)
        da = U.new_empty(steps, B, width + len(W_a))
        da[updates:, :, :width] = 0
        dc = torch.empty_like(contexts)
        if d_contexts is None:
            dc.zero_()
        else:
            dc.copy_(d_contexts)
        if d_states is not None:
            d_states = d_states.contiguous()
        ds, from_step = a.new_zeros(B, n), None  # what ds lacks
        d_alpha = a.new_empty(B, 1, alignment.size(-1))
        d_keys, d_v = torch.zeros_like(keys), v_a.new_zeros(ops.parts, len(v_a))
        for i in reversed(range(steps)):
            if i < updates:
                unit, d_unit = a[i], da[i, :, :width]
                d_out = None if d_states is None else d_states[i + 1]
                ops.unit_backward(ds, d_out, from_step, unit, states[i], d_unit)
                ops.unit_backward_reset(ds, times_U(d_unit[:, :n]), unit, states[i], d_unit)
                dc[i] += times_C(d_unit)
            # this order of the product is several times as fast as annotations @ dc
            torch.bmm(dc[i].unsqueeze(1), annotations.mT, out=d_alpha)
            if d_alignment is not None:
                d_alpha += d_alignment[:, i : i + 1]
            d_query = da[i, :, width:]
            ops.align_backward(
                keys, queries[i], v_a, alignment[i], d_alpha[:, 0], d_keys, d_v, d_query
            )
            from_step = times_U_gates_and_W_a(da[i, :, n:])
        ds += from_step
        if d_states is not None:
            ds += d_states[0]

        d_annotations = d_U_gates = d_U = d_C = d_W_a = None
        if ctx.needs_input_grad[5]:
            d_annotations = torch.bmm(alignment.permute(1, 2, 0), dc.transpose(0, 1))
        if any(ctx.needs_input_grad[7:]):
            d_gates = summed_product(da[..., n:], states[:steps])
            d_U_gates, d_W_a = d_gates.split((2 * n, len(W_a)))
            d_C = summed_product(da[:updates, :, :width], contexts[:updates])
            reset_s = a[..., 2 * n :] * states[:updates]
            d_U = summed_product(da[:updates, :, :n], reset_s)
        d_word_inputs = da[:updates, :, :width]
        d_tensors = (d_word_inputs, ds, d_annotations, d_keys, d_U_gates, d_U, d_C, d_W_a)
        return None, None, None, *d_tensors, d_v.sum(dim=0)
