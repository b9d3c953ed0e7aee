"""Do something when a module has been imported, without importing it."""

import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Action = Callable[[], object]


def when_imported(name: str, act: Action) -> None:
    """Call a function at once if a module is loaded, otherwise at the end of its import."""
    if name in sys.modules:
        act()
    else:
        _waiting().actions.setdefault(name, []).append(act)


class _Waiting(MetaPathFinder):
    """Finds the modules that something waits for.

    Attributes:
        actions: the functions to call, by a module's name.
    """

    def __init__(self) -> None:
        self.actions: dict[str, list[Action]] = {}

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.actions:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:  # somebody may only ask whether it is installed
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenActing(spec.loader, self.actions)
        return spec


class _ThenActing:
    """A module's loader, followed by what waits for the module."""

    def __init__(self, loader: object, actions: dict[str, list[Action]]) -> None:
        self._loader, self._actions = loader, actions

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for act in self._actions.pop(module.__name__, []):
            act()


@functools.cache
def _waiting() -> _Waiting:
    """Return this process's finder, which waits from now on."""
    sys.meta_path.insert(0, finder := _Waiting())
    return finder
