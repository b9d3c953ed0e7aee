"""The deep output with a maxout layer (appendix A.2.2).

    t~_i = U_o s + V_o E y_{i-1} + C_o c_i + b
    t_i = [max(t~_{i,2j-1}, t~_{i,2j})]_{j=1..l}
    p(y_i) = softmax(W_o t_i + b_o)

Which state s is depends on the order of the decoder's step: see ``network.decoder``. The bias b
before the maxout is the authors'; the paper leaves biases out of its equations.
"""

from torch import Tensor


def maxout_input(
    s: Tensor, y: Tensor, c: Tensor, U_o: Tensor, V_o: Tensor, C_o: Tensor, b: Tensor
) -> Tensor:
    """t~.

    Args:
        s: states, ``(..., n)``.
        y: embedded previous words, zero before the first, ``(..., m)``.
        c: contexts, ``(..., 2n)``.
        U_o, V_o, C_o: ``(2l, n)``, ``(2l, m)``, ``(2l, 2n)``.
        b: ``(2l,)``.

    Returns:
        ``(..., 2l)``.
    """
    return s @ U_o.T + y @ V_o.T + c @ C_o.T + b


def maxout(t: Tensor) -> Tensor:
    """The larger of each pair of neighbours: ``(..., 2l)`` to ``(..., l)``."""
    return t.unflatten(-1, (-1, 2)).amax(dim=-1)
