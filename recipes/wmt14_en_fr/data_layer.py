"""Import this first: it makes the package's lower modules usable without fairseq and torch.

Importing ``fairseq_rnnsearch`` registers models with fairseq, which takes seconds and 300 MB in
each process. The data layer needs neither (tests/test_layout.py holds it to that), so here the
package is a bare folder of modules. It is this checkout's, whatever is installed.
"""

import sys
import types
from pathlib import Path

NAME = "fairseq_rnnsearch"

if NAME not in sys.modules:
    package = types.ModuleType(NAME)
    package.__path__ = [str(Path(__file__).resolve().parents[2] / NAME)]
    sys.modules[NAME] = package
