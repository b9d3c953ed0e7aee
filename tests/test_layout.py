"""Dependencies point downwards only: read from the source, and run without fairseq."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "fairseq_rnnsearch"
NAME = PACKAGE.name

# what the files of a folder may import of the package
COMMON = {"errors", "files", "wording"}  # nor does the mathematics need these
ALLOWED = {
    "errors": set(),
    "files": set(),
    "wording": set(),
    "arguments": set(),
    "devices": set(),
    "equations": set(),
    "kernels": {"devices", "equations"},
    "network": {"equations", "kernels"},
    "compat": {"arguments", "data"},
    "models": {"compat", "equations", "kernels", "network"},
    "optim": {"compat", "devices"},
    "criterions": {"compat"},
    "data": set(),
    "figures": {"data"},
    "evaluation": {"data", "figures"},
    "search": set(),
    "inference": {"search"},
    "tasks": {"compat", "criterions", "data", "figures", "inference", "search"},
    "plugin_options": {"criterions", "models", "optim", "tasks"},
    "authors_parameters": {"compat", "data", "models", "tasks"},
    "groundhog": {"authors_parameters"},
    "work_folder": {"compat"},
    "translation": {"arguments", "figures"},
    "translator": {
        *("arguments", "compat", "data", "devices", "figures", "inference", "search"),
        *("translation", "work_folder"),
    },
    "command_options": {"arguments", "data", "figures"},
    "align": {"command_options", "data", "devices", "figures", "translator"},
    "translate": {"arguments", "command_options", "data", "devices", "figures", "translator"},
    "living": {"command_options", "data", "figures", "models", "translator"},
    "registration": {"criterions", "models", "optim", "tasks"},
}
MATHEMATICS = ("equations", "kernels", "network")
NO_FAIRSEQ = {"fairseq", "fairseq_cli", "omegaconf", "hydra"}
FORBIDDEN = {
    **dict.fromkeys(MATHEMATICS, NO_FAIRSEQ),
    **dict.fromkeys(
        ("errors", "files", "wording", "data", "figures", "evaluation"), NO_FAIRSEQ | {"torch"}
    ),
}


def modules(layer):
    """A folder's files, or the one file; none where the layer is still to be written."""
    files = [*(PACKAGE / layer).rglob("*.py"), PACKAGE / f"{layer}.py"]
    return sorted(path for path in files if path.is_file())


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


def test_every_part_has_its_place_in_the_table():
    parts = {
        path.stem
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py"))))
        and not path.name.startswith("__")
    }
    assert parts <= set(ALLOWED)


@pytest.mark.parametrize("layer", ALLOWED)
def test_imports_point_downwards(layer):
    for path in modules(layer):
        for name in imports(path):
            top, *rest = name.split(".")
            if top == NAME:
                common = set() if layer in MATHEMATICS else COMMON
                assert rest and rest[0] in ALLOWED[layer] | common | {layer}, f"{path}: {name}"
            assert top not in FORBIDDEN.get(layer, ()), f"{path}: {name}"


def test_the_kernels_of_a_gpu_need_nothing_of_a_cpu_s():
    """What both are derived from lies beside them."""
    for path in (PACKAGE / "kernels" / "gpu").rglob("*.py"):
        assert not [name for name in imports(path) if ".kernels.cpu" in name], path


def test_the_table_has_no_circle():
    def reach(layer, path=()):
        assert layer not in path, f"{' -> '.join((*path, layer))}"
        for below in ALLOWED[layer]:
            reach(below, (*path, layer))

    for layer in ALLOWED:
        reach(layer)


def test_the_reader_of_imports_sees_all_kinds(tmp_path, monkeypatch):
    """A test that cannot fail would hold nothing."""
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path / NAME)
    path = tmp_path / NAME / "network" / "sub.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import fairseq.data as d\n"
        f"from {NAME} import models\n"
        "from .. import tasks\n"
        "from ..search.authors import X\n"
        "from .decoder import Decoder\n"
        "def f():\n    from fairseq import utils\n"
    )
    assert set(imports(path)) == {
        "fairseq.data",
        f"{NAME}.models",
        f"{NAME}.tasks",
        f"{NAME}.search.authors.X",
        f"{NAME}.network.decoder.Decoder",
        "fairseq.utils",
    }


WITHOUT = """
import importlib, pkgutil, sys, types
for name in {blocked}:
    sys.modules[name] = None  # importing it raises ImportError
package = types.ModuleType({name!r})  # not its __init__, which registers the parts with fairseq
package.__path__ = [{path!r}]
sys.modules[{name!r}] = package
for layer in {layers}:
    module = importlib.import_module({name!r} + "." + layer)
    for part in pkgutil.iter_modules(getattr(module, "__path__", [])):
        importlib.import_module(module.__name__ + "." + part.name)
"""


@pytest.mark.parametrize(
    ("layers", "blocked"),
    [
        (["equations", "kernels", "network"], ["fairseq", "omegaconf", "hydra"]),
        (["data", "figures", "evaluation", "errors", "files"], ["fairseq", "torch"]),
    ],
)
def test_layers_run_without(layers, blocked):
    layers = [layer for layer in layers if modules(layer)]
    script = WITHOUT.format(name=NAME, path=str(PACKAGE), layers=layers, blocked=blocked)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
