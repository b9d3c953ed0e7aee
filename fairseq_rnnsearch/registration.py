"""When the parts of this package are registered with fairseq, and when its commands are mended.

Importing the package neither imports fairseq nor changes it. Where fairseq is loaded already, the
parts are registered at once; otherwise as soon as somebody imports it. What has to be mended in
fairseq (``compat.mends``) is mended when one of its commands begins:

- ``--user-dir`` lets fairseq import this package from within a command;
- a program that has imported the package itself may call a command later. Every command lists
  the optimizers that there are when it makes its parser of options, which is noticed here.
"""

import importlib.util
import sys
from collections import UserDict
from collections.abc import KeysView
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def register_with_fairseq() -> None:
    """Register the architectures, the task, the criterion and the optimizer, now or later."""
    if "fairseq" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _WaitingForFairseq())


def _register() -> None:
    from fairseq.registry import REGISTRIES

    # each import registers a part with fairseq
    from fairseq_rnnsearch import criterions, models, optim, tasks  # noqa: F401

    optimizers = REGISTRIES["optimizer"]
    optimizers["registry"] = _NoticingCommands(optimizers["registry"])
    if _is_loaded_by_a_command():
        _start()


def _is_loaded_by_a_command() -> bool:
    """Tell whether fairseq's ``--user-dir`` is what imports this package."""
    from fairseq.utils import import_user_module

    frame = sys._getframe()
    while frame is not None and frame.f_code is not import_user_module.__code__:
        frame = frame.f_back
    return frame is not None


def _start() -> None:
    from fairseq_rnnsearch.compat import mends

    mends.start()


class _NoticingCommands(UserDict):
    """fairseq's registry of optimizers; whoever asks it for all names is a command's parser."""

    def __init__(self, registry: dict[str, type]) -> None:
        super().__init__()
        self.data = registry

    def keys(self) -> KeysView[str]:
        _start()
        return super().keys()


class _WaitingForFairseq(MetaPathFinder):
    """Lets the import of fairseq end with the registration of the parts."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "fairseq":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader)
        return spec


class _Registering(Loader):
    """The loader of fairseq, and the registration after it."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _register()
