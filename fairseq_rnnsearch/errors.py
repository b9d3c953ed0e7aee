"""The one exception for mistakes a user can mend, and the hook that shows it as one line."""

import sys
from types import TracebackType


class UserError(ValueError):
    """A mistake in the user's input: shown as one line, without traceback.

    The message names what was given, what was found and what would be valid.
    """


def install_excepthook() -> None:
    """Show an uncaught `UserError` as `fairseq_rnnsearch: error: <message>` on standard error.

    Python's exit status stays 1, as for any uncaught exception; every other exception goes to
    the hook that was there before. Calling it again changes nothing.
    """
    if getattr(sys.excepthook, "shows_user_errors", False):
        return
    previous = sys.excepthook

    def show(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if issubclass(kind, UserError):
            # A file name may hold a line break; the promise is one line.
            message = " ".join(str(error).splitlines())
            print(f"fairseq_rnnsearch: error: {message}", file=sys.stderr)
        else:
            previous(kind, error, traceback)

    # The mark survives a second import of this module under another name (--user-dir).
    show.shows_user_errors = True
    sys.excepthook = show
