"""The paper: its equations, the network of them, its batch order; without fairseq.

Begin with ``equations``, then ``network``. ``kernels`` runs their loops over time.
"""
