"""Registration of this package's parts with fairseq.

Importing the package neither imports nor changes fairseq. If fairseq is loaded already, the parts
are registered at once, otherwise as soon as somebody imports it.
"""

import importlib.util
import sys
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
    # each import registers a part with fairseq
    from fairseq_rnnsearch.plugin import criterions, models, optim, tasks  # noqa: F401


class _WaitingForFairseq(MetaPathFinder):
    """Makes the import of fairseq register the parts at its end."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "fairseq":
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:  # somebody may only ask whether fairseq is installed
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader)
        return spec


class _Registering(Loader):
    """fairseq's loader, followed by the registration."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _register()
