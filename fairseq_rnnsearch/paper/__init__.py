"""The paper without fairseq: its equations, its network, its batch order.

Read ``equations`` first, then ``network``. ``kernels`` runs their loops over time.
"""
