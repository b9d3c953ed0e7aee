"""What fairseq-fixed 0.12.3.1 needs on today's Python and torch.

``mends`` has the table of what is replaced, and when; the other files hold what takes its place.
"""

import fairseq  # noqa: F401  (first, because it lets the parts be registered)
