"""The networks of ``paper.network`` with their dictionaries and options, without fairseq.

``plugin.models`` makes fairseq's models of the same classes.
"""
