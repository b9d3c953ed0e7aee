"""Where fairseq looks for the tasks of a ``--user-dir``; ours is in ``plugin.task``."""
