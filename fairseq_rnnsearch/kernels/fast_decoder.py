"""The decoder's loop, attention included, with a backward pass derived by hand.

Same function as in ``reference``. Products with the same state are one product: a step's buffer
``(batch, 3n + n')`` holds [proposed, update, reset, query], of which the last three come from
W = [U_z; U_r; W_a] times s. The weighted sums of annotations, small products that are no faster in
bfloat16, are in float32 throughout: the softmax's gradient is a difference of their gradients.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.fast_attention import Attention
from fairseq_rnnsearch.kernels.fast_unit import (
    accurate_type,
    apply,
    refuse_second_order,
    summed_product,
    unit_backward,
    unit_forward,
    without_autocast,
)
from fairseq_rnnsearch.kernels.interface import DecoderWeights, Memory
from fairseq_rnnsearch.kernels.packed import step_products


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
        a = U.new_zeros(steps, B, 3 * n + len(W_a), dtype=accurate_type(operands))
        states = a.new_empty(updates + 1, B, n)
        states[0] = initial
        contexts = a.new_empty(steps, B, annotations.size(-1))
        alignment = a.new_empty(steps, *padding.shape)
        word_inputs, annotations = word_inputs.to(a.dtype), annotations.to(a.dtype)
        attention = Attention(keys, padding, v_a)
        of_state, _ = step_products(torch.cat((U_gates, W_a)))
        (_, add_context), (_, add_proposed) = map(step_products, (C, U))
        for i in range(steps):
            from_state, query = of_state(states[i]).split((2 * n, len(W_a)), dim=1)
            a[i, :, 3 * n :] = query
            attention.weights(a[i, :, 3 * n :], out=alignment[i])
            torch.bmm(alignment[i].unsqueeze(1), annotations, out=contexts[i].unsqueeze(1))
            if i < updates:
                x = add_context(word_inputs[i], contexts[i])
                gates = x[:, n:].add_(from_state)
                unit = a[i, :, : 3 * n]
                unit_forward(x[:, :n], gates, states[i], add_proposed, unit, states[i + 1])
        ctx.save_for_backward(
            a, states, contexts, alignment, annotations, keys, padding, U_gates, U, C, W_a, v_a
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
        a, states, contexts, alignment, annotations, keys, padding, U_gates, U, C, W_a, v_a = saved
        steps, B, n, updates = *a.shape[:2], states.size(-1), len(states) - 1
        (_, add_context), (proposed, _) = (step_products(x.T) for x in (C, U))
        _, add_state = step_products(torch.cat((U_gates, W_a)).T)
        da = torch.empty_like(a)
        da[updates:, :, : 3 * n] = 0
        dc = torch.zeros_like(contexts)
        if d_contexts is not None:
            dc.copy_(d_contexts)
        ds = a.new_zeros(B, n)
        d_alpha = a.new_empty(B, 1, alignment.size(-1))
        attention = Attention(keys, padding, v_a)
        attention.start_backward()
        for i in reversed(range(steps)):
            if i < updates:
                if d_states is not None:
                    ds += d_states[i + 1]
                unit, d_unit = a[i, :, : 3 * n], da[i, :, : 3 * n]
                unit_backward(ds, unit, states[i], proposed, d_unit)
                dc[i] = add_context(dc[i], d_unit)
            # this order of the product is several times as fast as annotations @ dc
            torch.bmm(dc[i].unsqueeze(1), annotations.mT, out=d_alpha)
            if d_alignment is not None:
                d_alpha += d_alignment[:, i : i + 1]
            attention.weights_backward(
                d_alpha[:, 0], alignment[i], a[i, :, 3 * n :], out=da[i, :, 3 * n :]
            )
            ds = add_state(ds, da[i, :, n:])
        if d_states is not None:
            ds += d_states[0]

        d_annotations = d_keys = d_v = d_U_gates = d_U = d_C = d_W_a = None
        if ctx.needs_input_grad[5]:
            d_annotations = torch.bmm(alignment.permute(1, 2, 0), dc.transpose(0, 1))
        if any(ctx.needs_input_grad[6:]):
            d_keys, d_v = attention.gradients()
            d_a = da.to(U.dtype)
            d_gates = summed_product(d_a[..., n:], states[:steps], U.dtype)
            d_U_gates, d_W_a = d_gates.split((2 * n, len(W_a)))
            d_C = summed_product(d_a[..., : 3 * n], contexts, U.dtype)
            reset_s = a[:updates, :, 2 * n : 3 * n] * states[:updates]
            d_U = summed_product(d_a[:updates, :, :n], reset_s, U.dtype)
        d_word_inputs = da[:updates, :, : 3 * n]
        d_tensors = (d_word_inputs, ds, d_annotations, d_keys, d_U_gates, d_U, d_C, d_W_a, d_v)
        return None, None, None, *d_tensors
