"""What fairseq sees: the task, the criterion, the architectures and the optimizer."""

import fairseq  # noqa: F401  (first, because this registers the parts)
