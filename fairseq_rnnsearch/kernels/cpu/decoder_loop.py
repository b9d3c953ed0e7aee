"""The decoder's loop, attention included, with a backward pass derived by hand.

All products with one state form one product, [U_z; U_r; W_a] s, and so do those with one step's
gradients. Weighted sums of annotations stay in float32: these small products are no faster in
bfloat16, and the softmax's gradient is a difference of their gradients.

**The forward pass.** Step i, from s = s_{i-1} to s' = s_i, in the names of ``equations``, with
k_j = U_a h_j the key of source position j:

    p = W_a s                                    the query
    t_j = tanh(k_j + p),  e_j = v . t_j          hidden units and energies
    alpha = softmax(e),  c = sum_j alpha_j h_j   weights and context
    [a, a_z, a_r] = [x, x_z, x_r] + C c + [U q, U_z s, U_r s]     with  q = r o s
    s' = s + z o (h~ - s)                        with  h~ = tanh(a),  z, r = sigma(a_z), sigma(a_r)

**The backward pass.** Write d_v for the gradient of the cost with respect to v. Step i receives
d_s' (the readout's gradient of s_i plus what step i + 1 passes back) and the readout's gradients of
c (``d_contexts``) and, rarely, of alpha. The unit comes first: equations (1) to (4) of
``recurrence`` give

    d_inputs = [d_a, d_a_z, d_a_r]               from d_s', with d_q = U^T d_a in between     (1)

The inputs x and the context's C c enter the same sums, so d_inputs are also the gradients of the
word inputs, and

    d_c += C^T d_inputs                                                                       (2)

The context is a weighted sum, and the weights are a softmax:

    d_alpha_j = h_j . d_c                                                                     (3)
    d_h_j    += alpha_j d_c                                                                   (4)
    d_e_j     = alpha_j (d_alpha_j - sum_k alpha_k d_alpha_k)                                 (5)

An energy is the product of v with the tanh of key plus query, and tanh' = 1 - t^2:

    d_v      += sum_j d_e_j t_j                                                               (6)
    d_k_j    += d_e_j v o (1 - t_j^2)                                                         (7)
    d_p       = sum_j d_e_j v o (1 - t_j^2)                                                   (8)

s', q, both gates and the query read the state s, so step i - 1 receives

    d_s = d_s' o (1 - z)  +  d_q o r  +  [U_z; U_r; W_a]^T [d_a_z; d_a_r; d_p]                (9)

The last term is one product, as d_inputs and d_p are adjacent in one buffer. All sums over steps
except (6) and (7) are one product over all steps at the end: (4), and

    d_[U_z; U_r; W_a] = sum_i [d_a_z; d_a_r; d_p] s^T                                        (10)
    d_U = sum_i d_a q^T,   d_C = sum_i d_inputs c^T

``align_backward`` computes (5) to (8) and recomputes t_j: storing all of them would take 290 MB in
an update of the paper's size, and as long as recomputing. In orders whose last step only attends
and makes no state, its d_inputs are zero.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.cpu.operations import Operations
from fairseq_rnnsearch.kernels.cpu.packed_weights import batch_product, weight_gradient
from fairseq_rnnsearch.kernels.derived import accurate_type, apply, decoder_tensors, first_order


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
        word_inputs, annotations, keys, v_a = (
            x.to(exact).contiguous() for x in (word_inputs, annotations, keys, v_a)
        )
        padding = padding.contiguous()
        updates, B, n = len(word_inputs), *initial.shape
        units = keys.new_empty(updates, B, 3 * n)  # [h~, z, r]
        states = units.new_empty(updates + 1, B, n)
        states[0] = initial
        contexts = units.new_empty(steps, B, annotations.size(-1))
        alignment = units.new_empty(steps, *padding.shape)
        queries, reset_s = U.new_empty(steps, B, len(v_a)), U.new_empty(B, n)
        times_U_gates_and_W_a, times_C, times_U = (
            batch_product(x, steps) for x in (U_gates_and_W_a, C, U)
        )
        ops = Operations(operands)
        for i in range(steps):
            s = states[i]
            gates, queries[i] = times_U_gates_and_W_a(s.to(operands)).split((2 * n, len(v_a)), 1)
            ops.align(keys, queries[i], v_a, padding, alignment[i])
            torch.bmm(alignment[i].unsqueeze(1), annotations, out=contexts[i].unsqueeze(1))
            if i < updates:
                x, c = word_inputs[i], times_C(contexts[i].to(operands))
                ops.unit_gates(x[:, n:], gates, c[:, n:], s, None, units[i], reset_s)
                ops.unit_state(x[:, :n], times_U(reset_s), c[:, :n], s, units[i], states[i + 1])
        computed = units, states, contexts, alignment, queries
        ctx.save_for_backward(*computed, annotations, keys, U_gates_and_W_a, U, C, v_a)
        # the state before the first step has the parameters' type, and so has the alignment
        of_caller = alignment.to(initial.dtype).transpose(0, 1)
        return states.to(operands), contexts.to(operands), of_caller

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx,
        d_states: Tensor | None,
        d_contexts: Tensor | None,
        d_alignment: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        """Apply equations (1) to (10) of the module docstring."""
        units, states, contexts, alignment, queries, *given = ctx.saved_tensors
        annotations, keys, U_gates_and_W_a, U, C, v_a = given
        updates, B, width = units.shape
        steps, n = len(contexts), width // 3
        d_states = None if d_states is None else d_states.contiguous()
        times_U_gates_and_W_a_T, times_C_T, times_U_T = (
            batch_product(x.T, steps) for x in (U_gates_and_W_a, C, U)
        )
        ops = Operations(U.dtype)
        d_products = U.new_empty(steps, B, width + len(v_a))  # [d_inputs, d_query]
        d_inputs, d_query = d_products.split((width, len(v_a)), dim=-1)
        d_inputs[updates:] = 0
        if d_contexts is None:
            d_c = torch.zeros_like(contexts)
        else:
            d_c = torch.empty_like(contexts).copy_(d_contexts)
        d_alpha = units.new_empty(B, 1, alignment.size(-1))
        d_keys, d_v = torch.zeros_like(keys), v_a.new_zeros(ops.parts, len(v_a))
        # d_s in two parts: the terms of (9) outside its product, and that product
        d_s, d_s_from_product = units.new_zeros(B, n), None
        for i in reversed(range(steps)):
            if i < updates:  # (1), the first two terms of (9), and (2)
                d_out = None if d_states is None else d_states[i + 1]
                s, d_x = states[i], d_inputs[i]
                ops.unit_backward(d_s, d_out, d_s_from_product, units[i], s, d_x)
                ops.unit_backward_reset(d_s, times_U_T(d_x[:, :n]), units[i], s, d_x)
                d_c[i] += times_C_T(d_x)
            # (3); in this order the product is several times as fast as annotations @ d_c
            torch.bmm(d_c[i].unsqueeze(1), annotations.mT, out=d_alpha)
            if d_alignment is not None:
                d_alpha += d_alignment[:, i : i + 1]
            ops.align_backward(  # (5) to (8)
                keys, queries[i], v_a, alignment[i], d_alpha[:, 0], d_keys, d_v, d_query[i]
            )
            d_s_from_product = times_U_gates_and_W_a_T(d_products[i, :, n:])
        d_s += d_s_from_product
        if d_states is not None:
            d_s += d_states[0]

        d_annotations = d_U_gates = d_U = d_C = d_W_a = None
        if ctx.needs_input_grad[5]:  # (4)
            d_annotations = torch.bmm(alignment.permute(1, 2, 0), d_c.transpose(0, 1))
        if any(ctx.needs_input_grad[7:12]):  # (10)
            d_product = weight_gradient(d_products[..., n:], states[:steps])
            d_U_gates, d_W_a = d_product.split((2 * n, len(v_a)))
            d_C = weight_gradient(d_inputs[:updates], contexts[:updates])
            reset_s = units[..., 2 * n :] * states[:updates]
            d_U = weight_gradient(d_inputs[:updates, :, :n], reset_s)
        d_tensors = d_inputs[:updates], d_s, d_annotations, d_keys, d_U_gates, d_U, d_C, d_W_a
        return None, None, None, *d_tensors, d_v.sum(dim=0)
