"""The commands of `python -m fairseq_rnnsearch.evaluation`, one a file.

Each has `add(commands)`, which describes its options to the parser and leaves the function that
runs it in their default `run`.
"""
