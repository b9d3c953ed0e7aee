"""Dependencies point downwards only: read from the source, and run without fairseq."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "fairseq_rnnsearch"
NAME = PACKAGE.name

# What the files of a room may import of the package. A room with rooms inside is named by these.
COMMON = {"command_line", "errors", "files", "__version__"}  # nor does the mathematics need these
ALLOWED = {
    "errors": set(),
    "command_line": set(),
    "files": set(),
    "import_hook": set(),
    "arguments": set(),
    "c_library": set(),
    "devices": set(),
    "data": set(),
    "conformance": set(),
    "paper.equations": set(),
    "kernels": {"c_library", "devices", "paper.equations"},
    "paper.batch_order": set(),
    "network": {"arguments", "data", "kernels", "paper.equations"},
    "runs": {"data", "devices", "import_hook", "network"},
    "alignment.figures": {"data"},
    "alignment.evaluation": {"alignment.figures"},
    "decoding": {"c_library"},
    "plugin.models": {"network", "runs"},
    "plugin.generators": {"decoding"},
    "plugin.optim": {"c_library", "devices", "runs"},
    "plugin.criterions": {"decoding", "kernels", "plugin.models", "runs"},
    "plugin.tasks": {
        *("alignment.figures", "arguments", "data", "decoding", "kernels", "paper.batch_order"),
        *("plugin.criterions", "plugin.generators", "plugin.models", "runs"),
    },
    "tasks": {"plugin.tasks"},
    "plugin.option_list": {"plugin.criterions", "plugin.models", "plugin.optim", "plugin.tasks"},
    "plugin.authors_parameters": {"data", "plugin.models", "runs"},
    "plugin.registration": {
        *("import_hook", "plugin.criterions", "plugin.models", "plugin.optim", "plugin.tasks"),
        "runs",
    },
    "groundhog": {"plugin.authors_parameters"},
    "inference.work_folder": {"data", "inference.model_folder"},
    "inference.translation": {"alignment.figures"},
    "inference.model_folder": {"data", "decoding", "network"},
    "inference.checkpoint": {
        *("data", "decoding", "inference.model_folder", "inference.work_folder", "network", "runs"),
    },
    "inference.conversion": {
        *("data", "decoding", "inference.checkpoint", "inference.model_folder"),
        *("inference.work_folder", "network", "plugin.models", "runs"),
    },
    "inference.export": {"arguments", "inference.command_options", "inference.conversion"},
    "inference.translator": {
        *("alignment.figures", "arguments", "data", "decoding", "inference.translation"),
        "plugin.generators",
    },
    "inference.loading": {
        *("arguments", "data", "decoding", "inference.checkpoint"),
        *("inference.model_folder", "inference.translation", "inference.translator"),
        "inference.work_folder",
    },
    "inference.command_options": {"alignment.figures", "arguments", "data"},
    "inference.align": {
        *("alignment.evaluation", "alignment.figures", "data"),
        *("inference.command_options", "inference.loading", "inference.translation"),
        "inference.translator",
    },
    "inference.tokenizing": {"data"},
    "inference.translate": {
        *("alignment.figures", "arguments", "data", "inference.command_options"),
        *("inference.loading", "inference.translator"),
    },
    "training": {"data", "inference.tokenizing", "runs"},
    "living": {
        *("alignment.figures", "arguments", "data", "inference.command_options"),
        *("inference.loading", "inference.model_folder", "inference.translator", "network"),
    },
}
MATHEMATICS = ("paper.equations", "paper.batch_order", "kernels")
NO_FAIRSEQ = {"fairseq", "fairseq_cli", "omegaconf", "hydra"}
# what a model's folder needs; reading a checkpoint imports fairseq on the way
FOLDERS = (
    *("network", "decoding", "inference.model_folder", "inference.loading"),
    *("inference.translator", "inference.translate", "inference.align", "living"),
)
NO_TORCH = ("errors", "command_line", "files", "data", "alignment.figures", "alignment.evaluation")
FORBIDDEN = {
    **dict.fromkeys((*MATHEMATICS, *FOLDERS, "conformance"), NO_FAIRSEQ),
    **dict.fromkeys(NO_TORCH, NO_FAIRSEQ | {"torch"}),
}
ROOMS = {layer.split(".")[0] for layer in ALLOWED if "." in layer}


def path_of(layer):
    return PACKAGE.joinpath(*layer.split("."))


def layer_of(dotted):
    """The layer that a name of the package (without the package's own) belongs to."""
    parts = dotted.split(".")
    return ".".join(parts[: 2 if parts[0] in ROOMS else 1])


def modules(layer):
    """A folder's files, or the one file."""
    path = path_of(layer)
    files = [*path.rglob("*.py"), path.with_suffix(".py")]
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


def test_the_table_and_the_folders_are_the_same():
    found = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for folder in (PACKAGE, *(PACKAGE / room for room in ROOMS))
        for path in folder.iterdir()
        if (path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py"))))
        and not path.name.startswith("__")
    }
    assert found == set(ALLOWED) | ROOMS


@pytest.mark.parametrize("layer", ALLOWED)
def test_imports_point_downwards(layer):
    for path in modules(layer):
        for name in imports(path):
            top, _, rest = name.partition(".")
            if top == NAME:
                common = set() if layer in MATHEMATICS else COMMON
                assert layer_of(rest) in ALLOWED[layer] | common | {layer}, f"{path}: {name}"
            assert top not in FORBIDDEN.get(layer, ()), f"{path}: {name}"


def test_the_table_says_no_more_than_the_files_do():
    """An entry that nothing needs would let a new import pass unseen."""
    for layer, allowed in ALLOWED.items():
        used = {
            layer_of(name.partition(".")[2])
            for path in modules(layer)
            for name in imports(path)
            if name.startswith(f"{NAME}.")
        }
        assert not allowed - used, layer


def test_the_kernels_of_a_gpu_and_of_a_cpu_share_what_lies_beside_them():
    """Neither imports from the other, and what only one needs lies in its folder."""
    used = {}
    for kind, other in (("cpu", "gpu"), ("gpu", "cpu")):
        names = {n for path in (PACKAGE / "kernels" / kind).glob("*.py") for n in imports(path)}
        assert not [name for name in names if f".kernels.{other}" in name]
        used[kind] = {name for name in names if ".kernels.derived." in name}
    assert used["cpu"] == used["gpu"]


def test_the_table_has_no_circle():
    def reach(layer, path=()):
        assert layer not in path, f"{' -> '.join((*path, layer))}"
        for below in ALLOWED[layer]:
            reach(below, (*path, layer))

    for layer in ALLOWED:
        reach(layer)


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
        (MATHEMATICS, ["fairseq", "omegaconf", "hydra"]),
        (FOLDERS, ["fairseq", "omegaconf", "hydra"]),
        ((*NO_TORCH, "conformance"), ["fairseq", "torch"]),
    ],
)
def test_layers_run_without(layers, blocked):
    script = WITHOUT.format(name=NAME, path=str(PACKAGE), layers=layers, blocked=blocked)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
