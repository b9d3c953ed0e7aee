"""No file and no option runs code: each hostile one would leave a trace, and leaves none."""

import ast
import pickle
import re
import sys
import zipfile
from argparse import Namespace
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from commands import RunsACommand
from fairseq import checkpoint_utils, utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from models import checkpoint_state, dictionary
from omegaconf import OmegaConf
from slow_cases import cases

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.runs.options import read_overrides, read_value

pytestmark = pytest.mark.usefixtures("patched")


@pytest.fixture
def trace(tmp_path):
    return tmp_path / "trace"


def code(trace):
    """An expression that leaves a file behind."""
    return f"[__import__('os').system('touch {trace}')]"


# --- what fairseq evaluates ---------------------------------------------------------------------

VALUES = (
    "[(512, 10, 5)] + [(512, 3, 2)] * 4",
    "(0.9, 1e-30)",
    "3,7",
    "True",
    " -1",
    "{'a': [1, {2}]}",
)


@pytest.mark.parametrize("text", VALUES)
def test_values_are_read_as_python_reads_them(text):
    assert read_value(text) == eval(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        "open('x')",
        "().__class__",
        "a",
        "9**9**9",
        "f'{1}'",
        "lambda: 0",
        "",
        "(",
        "\0",
        "(" * 300,
        "-" * 100_000 + "1",
    ],
)
def test_anything_else_is_refused_in_one_line(text):
    with pytest.raises(UserError, match="is not a value") as caught:
        read_value(text)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", ["{1: 2}", "[]", "__import__('os')"])
def test_overrides_are_dictionaries(text):
    with pytest.raises(UserError, match=r"must be a dictionary of names|is not a value"):
        read_overrides(text)
    assert read_overrides("{'dropout': 0.1, 'data': None}") == {"dropout": 0.1, "data": None}


def test_no_module_of_fairseq_evaluates():
    """Those that call eval are loaded with fairseq, and each has been given another one."""
    folder, found = Path(fairseq.__file__).parent, 0
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if re.search(r"(?<![\w.])(eval|exec)\(", text) and "examples" not in path.parts:
            calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            if any(getattr(function, "id", "") in ("eval", "exec") for function in calls):
                name = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
                assert sys.modules[name].eval is read_value, name
                found += 1
    assert found > 15


def test_readers_of_command_lines(trace):
    for read in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        with pytest.raises(UserError, match="is not a value"):
            read(code(trace))
    assert utils.eval_str_list("3,7") == [3.0, 7.0] and utils.eval_bool("True") is True
    assert not trace.exists()


# --- checkpoints --------------------------------------------------------------------------------


def task(symbols=8):
    cfg = TranslationConfig(source_lang="en", target_lang="fr")
    return TranslationTask(OmegaConf.structured(cfg), dictionary(symbols), dictionary(symbols))


PLAIN = [
    "fconv encoder_layers cfg",
    "fconv decoder_layers args",
    "fconv_self_att pretrained cfg",
    "fconv encoder_layers args",
    "fconv decoder_layers cfg",
    "fconv_self_att pretrained args",
]


@pytest.mark.parametrize("case", cases(PLAIN, *PLAIN[:3]))
def test_a_checkpoint_of_plain_values_runs_nothing(tmp_path, trace, case):
    architecture, option, kind = case.split()
    options = {"arch": architecture, "max_source_positions": 9, option: code(trace)}
    if kind == "cfg":
        state = {"args": None, "cfg": {"model": {"_name": architecture, **options}}}
    else:
        state = {"args": Namespace(task="translation", **options), "cfg": None}
    torch.save(checkpoint_state(**state), tmp_path / "model.pt")
    with pytest.raises(UserError, match="is not a value: fairseq would run it"):
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "model.pt")], task=task())
    assert not trace.exists()


@pytest.mark.parametrize("place", ["cfg", "task_state", "extra_state", "last_optimizer_state"])
@pytest.mark.parametrize("is_zip", [True, False])
def test_a_checkpoint_with_code_anywhere(tmp_path, trace, place, is_zip):
    path = tmp_path / "model.pt"
    torch.save(
        {"args": None, "model": {}, place: RunsACommand(trace)},
        path,
        _use_new_zipfile_serialization=is_zip,
    )
    with pytest.raises(UserError, match=r"model\.pt refused: it holds posix\.system"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert not trace.exists()


# --- what only old checkpoints hold --------------------------------------------------------------


class Made:
    """Pickled as a call of ``function``, and the state that its result is given."""

    def __init__(self, function, arguments, *state):
        self.made = function, arguments, *state

    def __reduce__(self):
        return self.made


def array(kind, content):
    begun = np.ndarray, (0,), b"b"
    state = 1, (1,), kind, False, content
    return Made(np._core.multiarray._reconstruct, begun, state)


def kind(code, flags=0, order="|"):
    return Made(np.dtype, (code, False, True), (3, order, None, None, None, -1, -1, flags))


FORGED = {
    "objects over bytes": array(kind("O8", 63), b"A" * 8),
    "objects without a flag": array(kind("O8"), b"A" * 8),
    "bytes as objects": array(kind("V8", 63), b"A" * 8),
    "an array larger than its bytes": array(np.dtype("i8"), b"A"),
    "a scalar of an object": Made(np._core.multiarray.scalar, (kind("O8", 63), b"A" * 8)),
    "a call of a class": Made(zipfile.ZipFile, ("/dev/null",)),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_values_are_refused(tmp_path, name):
    """numpy would take bytes of the file for addresses of objects."""
    path = tmp_path / "model.pt"
    torch.save(checkpoint_state(extra_state={"a": FORGED[name]}), path)
    with pytest.raises(UserError, match=f"^checkpoint {path} "):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


@pytest.mark.parametrize(
    "value", [Namespace(a=1), np.zeros(2), OmegaConf.create({"a": 1})], ids=type
)
def test_torch_itself_is_as_without_the_package(value, tmp_path):
    """What it loads is not widened for anybody's files."""
    torch.save(value, tmp_path / "model.pt")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(tmp_path / "model.pt", weights_only=True)
