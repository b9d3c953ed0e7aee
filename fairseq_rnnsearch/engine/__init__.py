"""The trained network in C or NumPy, for translating on a CPU; without torch.

``parameters`` has a model's arrays by name. ``native`` computes with them in C, ``numpy_network``
without a compiler and in float64. Both take the steps of a search, see ``interface``; the search
itself is in ``decoding.search``.

Matrices that multiply a context multiply the annotations instead, once for each sentence:

    C c_i = sum_j alpha_ij (C h_j),   C_o c_i = sum_j alpha_ij (C_o h_j)
"""
