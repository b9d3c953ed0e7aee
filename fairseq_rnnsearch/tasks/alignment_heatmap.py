"""The task, under the name by which fairseq finds it.

fairseq imports each file of this folder and calls ``add_args`` of the task that has the file's
name. ``fairseq-hydra-train`` makes no earlier call of ours, and so fairseq is patched in this one,
before the save folder is opened.
"""

from fairseq_rnnsearch.plugin import task as alignment_heatmap  # noqa: F401
