"""Memory of a training on a CPU."""

import ctypes
import sys

# glibc's names of what its ``mallopt`` sets, and the values
_SETTINGS = {
    -4: 0,  # M_MMAP_MAX: no memory that goes back to the system when it is free
    -1: 2**31 - 1,  # M_TRIM_THRESHOLD: nor the end of the heap
    -2: 2**26,  # M_TOP_PAD: ask for this much more at a time
}


def keep_freed_memory() -> None:
    """Let the process keep the memory that it frees, as each update needs as much as the last.

    glibc gives large pieces back to the system, which clears each page before it hands it out
    again. Other C libraries stay as they are.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        for name, value in _SETTINGS.items():
            mallopt(name, value)
