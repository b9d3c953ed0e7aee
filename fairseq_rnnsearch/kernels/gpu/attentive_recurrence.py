"""The decoder's loop in Triton: four launches a step in the forward pass, and five in the backward.

``cpu.decoder_loop`` derives the equations (1) to (10) and explains the names. Here

    C c_i = sum_j alpha_ij C h_j                                                              (11)

so that the values C h_j are one product before the loop, and the contexts, which only the readout
reads, are one after it. Equations (2) to (4) become

    d_alpha_ij = h_j . d_c_i  +  C h_j . d_inputs_i                                           (12)
    d_(C h_j)  = sum_i alpha_ij d_inputs_i                                                    (13)
    d_h_j      = sum_i alpha_ij d_c_i  +  C^T d_(C h_j)

where d_c is the readout's gradient alone, and of d_alpha the loop computes the second term. The
gradients of keys and of v are sums over steps that nothing waits for, (6) and (7), and come after
the loop.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.derived import (
    accurate_type,
    apply,
    decoder_tensors,
    first_order,
)
from fairseq_rnnsearch.kernels.gpu import attention, products
from fairseq_rnnsearch.kernels.gpu.masked_cost import accurate_product


def decoder_recurrence(*given: object) -> tuple[Tensor, Tensor, Tensor]:
    """See ``Reference.decoder_recurrence``."""
    return apply(_DecoderRecurrence, *decoder_tensors(*given))


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
        operands, exact = operands or initial.dtype, accurate_type(operands or initial.dtype)
        U, C = U.to(operands), C.to(operands)
        U_gates_and_W_a = torch.cat((U_gates, W_a)).to(operands)
        v_a, annotations = v_a.to(exact), annotations.to(operands)
        word_inputs, keys, padding = (x.contiguous() for x in (word_inputs, keys, padding))
        updates, B, n = len(word_inputs), *initial.shape
        values = annotations @ C.T  # C h_j
        units = v_a.new_empty(updates, B, 3 * n)
        states = units.new_empty(updates + 1, B, n)
        states_in = torch.empty_like(states, dtype=operands)
        states[0] = states_in[0] = initial
        alignment = units.new_empty(steps, *padding.shape)
        s_products = U.new_empty(steps, B, len(U_gates_and_W_a))  # [U_z s, U_r s, p]
        queries, energy = s_products[..., 2 * n :], torch.empty_like(alignment[0])
        reset_s, context = torch.empty_like(states_in[1:]), torch.empty_like(states[0])
        for i in range(steps):
            s = states[i]
            torch.mm(states_in[i], U_gates_and_W_a.T, out=s_products[i])
            attention.energies(keys, queries[i], v_a, padding, energy)
            if i == updates:
                attention.weights(energy, alignment[i])
                break
            given = energy, values, word_inputs[i], s_products[i], s
            attention.attend_and_gate(*given, alignment[i], context, units[i], reset_s[i])
            products.new_state(  # one direction
                *(x.unsqueeze(0) for x in (word_inputs[i], context, s, reset_s[i], U, units[i])),
                *(x[i + 1].unsqueeze(0) for x in (states, states_in)),
            )
        contexts = torch.bmm(alignment.transpose(0, 1).to(operands), annotations).transpose(0, 1)
        computed = units, states, states_in, reset_s, alignment, queries
        ctx.save_for_backward(*computed, annotations, keys, values, U_gates_and_W_a, U, C, v_a)
        # the state before the first step has the parameters' type, and so has the alignment
        of_caller = alignment.to(initial.dtype).transpose(0, 1)
        return states_in, contexts, of_caller

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx,
        d_states: Tensor | None,
        d_contexts: Tensor | None,
        d_alignment: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        units, states, states_in, reset_s, alignment, queries, *given = ctx.saved_tensors
        annotations, keys, values, U_gates_and_W_a, U, C, v_a = given
        updates, B, width = units.shape
        steps, n = len(alignment), width // 3
        d_states = None if d_states is None else d_states.contiguous()
        d_products = U.new_empty(steps, B, width + len(v_a))  # [d_inputs, d_query]
        d_inputs, d_query = d_products.split((width, len(v_a)), dim=-1)
        d_inputs[updates:] = 0
        if d_contexts is None:
            d_alpha = torch.zeros_like(alignment)
        else:  # (12)
            d_contexts = d_contexts.transpose(0, 1).to(U.dtype)
            d_alpha = accurate_product(d_contexts, annotations.mT)
            d_alpha = d_alpha.transpose(0, 1).contiguous()
        if d_alignment is not None:
            d_alpha += d_alignment.transpose(0, 1)
        d_s, d_s_from_product = torch.zeros_like(states[:1]), None
        for i in reversed(range(steps)):
            if i < updates:  # (1), and all terms of (9) of the step after
                d_out = None if d_states is None else (d_states[i + 1], 0)
                step = units[i : i + 1], states[i : i + 1]
                d_x = d_inputs[i : i + 1]
                products.unit_backward(d_s_from_product, d_s, d_out, *step, d_x)
                products.reset_backward(d_x, U.unsqueeze(0), d_s, *step)
                attention.weights_backward(values, d_inputs[i], d_alpha[i])
            attention.query_backward(  # (5), (8)
                keys, queries[i], v_a, alignment[i], d_alpha[i], d_query[i]
            )
            d_s_from_product = torch.mm(d_products[i, :, n:], U_gates_and_W_a).unsqueeze(0)
        d_out = None if d_states is None else (d_states[0], 0)
        products.unit_backward(d_s_from_product, d_s, d_out, None, None, None)

        d_energy = alignment * (d_alpha - (alignment * d_alpha).sum(dim=-1, keepdim=True))  # (5)
        d_keys, d_v = torch.empty_like(keys), v_a.new_empty(attention.parts_of_v(keys), len(v_a))
        attention.keys_backward(keys, queries, v_a, d_energy, d_keys, d_v)  # (6), (7)
        of_steps = alignment.to(U.dtype).permute(1, 2, 0)
        d_values = torch.bmm(of_steps, d_inputs.transpose(0, 1))  # (13)
        d_annotations = accurate_product(d_values.flatten(0, 1), C).view_as(annotations)
        if d_contexts is not None:  # (4)
            d_annotations += accurate_product(of_steps, d_contexts)
        d_product = _weight_gradient(d_products[..., n:], states_in[:steps])  # (10)
        d_U_gates, d_W_a = d_product.split((2 * n, len(v_a)))
        d_U = _weight_gradient(d_inputs[:updates, :, :n], reset_s)
        d_C = _weight_gradient(d_values, annotations)
        d_tensors = d_inputs[:updates], d_s[0], d_annotations, d_keys, d_U_gates, d_U, d_C, d_W_a
        return None, None, None, *d_tensors, d_v.sum(dim=0)


def _weight_gradient(d_out: Tensor, x: Tensor) -> Tensor:
    """Return a matrix's gradient, ``(out, in)``, summed over all other dimensions."""
    return accurate_product(d_out.flatten(0, -2).T, x.flatten(0, -2))
