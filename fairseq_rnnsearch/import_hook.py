"""Do something when a module has been imported, without importing it."""

import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType

Action = Callable[[], object]


def when_imported(name: str, act: Action) -> None:
    """Call a function at once if a module is loaded, otherwise at the end of its import."""
    if name in sys.modules:
        act()
    else:
        _waiting().actions.setdefault(name, []).append(act)


class _Waiting:  # importing its base class, `importlib.abc.MetaPathFinder`, takes time
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
            execute = spec.loader.exec_module

            def execute_and_act(module: ModuleType) -> None:
                execute(module)
                for act in self.actions.pop(fullname, []):
                    act()

            spec.loader.exec_module = execute_and_act
        return spec


@functools.cache
def _waiting() -> _Waiting:
    """Return this process's finder, which waits from now on."""
    sys.meta_path.insert(0, finder := _Waiting())
    return finder
