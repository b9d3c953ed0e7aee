"""What keeps a training whole: locks, signals, checkpoints, resuming, processes.

Much of it replaces parts of fairseq-fixed 0.12.3.1, or lets it run on today's Python and torch.
``patches`` lists what is replaced, and when; ``checkpoint`` what is saved, and why; the other files
hold the replacements.
"""

import fairseq  # noqa: F401  (first, because it lets the parts be registered)
