"""Dependencies point downwards only: read from the source, and run without fairseq."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "fairseq_rnnsearch"
NAME = PACKAGE.name

MATHEMATICS = ("paper", "kernels", "network", "decoding")
NO_FAIRSEQ = {"fairseq", "fairseq_cli", "omegaconf", "hydra"}
# what a model's folder needs; reading a checkpoint imports fairseq on the way
FOLDERS = (
    *("models.folder", "commands.loading", "commands.translator", "commands.translate"),
    *("commands.align", "living"),
)
TRANSLATING = FOLDERS[:-1]  # without a page, importing needs no torch
NO_TORCH = ("errors", "command_line", "files", "text", "figures", "align", "commands.evaluate")
FORBIDDEN = {
    **dict.fromkeys((*MATHEMATICS, *FOLDERS, "conformance"), NO_FAIRSEQ),
    **dict.fromkeys(NO_TORCH, NO_FAIRSEQ | {"torch"}),
}


def order():
    """The rooms as the manual lists them: each may import from those before it."""
    manual = (PACKAGE / "manual" / "extend.md").read_text(encoding="utf-8")
    listed = manual.partition(f"{NAME}/\n")[2].partition("```")[0]
    return re.findall(r"^  (\w+)(?:/|\.py) ", listed, re.MULTILINE)


def modules(layer):
    """A folder's files, or the one file."""
    path = PACKAGE.joinpath(*layer.split("."))
    return sorted([*path.rglob("*.py"), *path.parent.glob(f"{path.name}.py")])


def imports(path):
    """Dotted names of everything a file imports, inside functions too, relative ones resolved."""
    package = path.relative_to(PACKAGE.parent).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from package import layer` names the layer only here
            yield from (f"{module}.{alias.name}" for alias in node.names)


def test_the_manual_lists_all_rooms_and_the_files_beside_them():
    found = {
        path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")
    }
    assert sorted(order()) == sorted([*found - {"__init__", "__main__"}, "pretrained"])


@pytest.mark.parametrize("room", order())
def test_imports_point_backwards(room):
    before = {"__version__", *order()[: order().index(room) + 1]} - {"pretrained"}
    for path in modules(room):
        used = {name.split(".")[1] for name in imports(path) if name.startswith(f"{NAME}.")}
        assert used <= before, path


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_imports_of_others(layer):
    for path in modules(layer):
        assert not {name.partition(".")[0] for name in imports(path)} & FORBIDDEN[layer], path


def test_the_kernels_of_a_gpu_and_of_a_cpu_share_what_lies_beside_them():
    """Neither imports from the other, and what only one needs lies in its folder."""
    used = {}
    for kind, other in (("cpu", "gpu"), ("gpu", "cpu")):
        names = {n for path in (PACKAGE / "kernels" / kind).glob("*.py") for n in imports(path)}
        assert not [name for name in names if f".kernels.{other}" in name]
        used[kind] = {name for name in names if ".kernels.derived." in name}
    assert used["cpu"] == used["gpu"]


WITHOUT = """
import importlib, pkgutil, sys, types
for name in {blocked}:
    sys.modules[name] = None  # importing it raises ImportError
package = types.ModuleType({name!r})  # not its __init__, which registers the parts with fairseq
package.__path__, package.__version__ = [{path!r}], "0"
sys.modules[{name!r}] = package
for layer in {layers}:
    module = importlib.import_module({name!r} + "." + layer)
    for part in pkgutil.iter_modules(getattr(module, "__path__", [])):
        importlib.import_module(module.__name__ + "." + part.name)
"""


@pytest.mark.parametrize(
    ("layers", "blocked"),
    [
        ((*MATHEMATICS, *FOLDERS), ["fairseq", "omegaconf", "hydra"]),
        ((*NO_TORCH, *TRANSLATING, "conformance"), ["fairseq", "torch"]),
    ],
)
def test_layers_run_without(layers, blocked):
    script = WITHOUT.format(name=NAME, path=str(PACKAGE), layers=layers, blocked=blocked)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
