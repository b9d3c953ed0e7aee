"""No file and no option runs code: each hostile one would leave a trace, and leaves none."""

import ast
import io
import shutil
import sys
import tarfile
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import fairseq
import pytest
import torch
from commands import RunsACommand, generate, run, together, train
from fairseq import checkpoint_utils, utils
from omegaconf import OmegaConf

from fairseq_rnnsearch.compat.evaluated_options import read_overrides, read_value
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.models import RNNSearchModel

pytest_plugins = ["trained"]

pytestmark = pytest.mark.survives("hostile")


@pytest.fixture
def trace(tmp_path):
    return tmp_path / "trace"


def code(trace):
    """An expression that leaves a file behind."""
    return f"[__import__('os').system('touch {trace}')]"


def test_the_expression_would_run(trace):
    eval(code(trace))
    assert trace.exists()


# --- what fairseq evaluates ---------------------------------------------------------------------

VALUES = (
    "[(512, 3)] * 20",
    "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512,2,2)] + [(512,2,2)]",
    "(0.9, 0.98)",
    "(1e-30, 1e-3)",
    "3,7,15",
    "True",
    "None",
    " -1",
    "'a'",
    "{'a': [1, {2}], 'b': {}}",
    "()",
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
        "[x for x in [1]]",
        "9**9**9",
        "[0] * 10**9",
        "[0] * 100000",
        "([0] * 5000 + [0] * 5000) * 2",
        "'a' * 5",
        "2 * [1]",
        "f'{1}'",
        "{**{}}",
        "lambda: 0",
        "(x := 1)",
        "1 if 1 else 2",
        "{[]: 1}",
        "-'a'",
        "",
        "(",
        "\0",
        "(" * 300,
        "-" * 100_000 + "1",
    ],
)
def test_anything_else_is_refused_in_one_line(text):
    with pytest.raises(UserError, match="is no value") as caught:
        read_value(text)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", ["[]", "{1: 2}", "x", "__import__('os')", ""])
def test_overrides_are_dictionaries(text):
    with pytest.raises(UserError, match="must be a dictionary of names and plain values"):
        read_overrides(text)
    assert read_overrides("{'dropout': 0.1, 'data': None}") == {"dropout": 0.1, "data": None}


def calls_eval(path):
    return any(
        isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("eval", "exec")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_no_module_of_fairseq_evaluates():
    """Those that call eval are loaded with fairseq, and each has been given another one."""
    folder = Path(fairseq.__file__).parent
    found = [
        path
        for path in folder.rglob("*.py")
        if "examples" not in path.relative_to(folder).parts and calls_eval(path)
    ]
    assert len(found) > 15
    for path in found:
        name = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        assert sys.modules[name].eval is read_value, name


def test_readers_of_command_lines(trace):
    for read in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        with pytest.raises(UserError):
            read(code(trace))
    assert utils.eval_bool("True") is True and utils.eval_bool(None, True) is True
    assert utils.eval_str_list("3,7") == [3.0, 7.0]
    assert not trace.exists()


# --- checkpoints --------------------------------------------------------------------------------


def task(symbols=8):
    from conftest import dictionary
    from fairseq.tasks.translation import TranslationConfig, TranslationTask

    cfg = TranslationConfig(source_lang="en", target_lang="fr")
    return TranslationTask(OmegaConf.structured(cfg), dictionary(symbols), dictionary(symbols))


@pytest.mark.parametrize("kind", ["cfg", "args"])
@pytest.mark.parametrize(
    ("architecture", "option"),
    [
        ("fconv", "encoder_layers"),
        ("fconv", "decoder_layers"),
        ("fconv_self_att", "pretrained"),
    ],
)
def test_a_checkpoint_of_plain_values_runs_nothing(tmp_path, trace, kind, architecture, option):
    options = {"arch": architecture, "max_source_positions": 9, option: code(trace)}
    if kind == "cfg":
        state = {"args": None, "cfg": {"model": {"_name": architecture, **options}}}
    else:
        state = {"args": Namespace(task="translation", **options), "cfg": None}
    history = {"criterion_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    state |= {"model": {}, "optimizer_history": [history], "extra_state": {}}
    torch.save(state, tmp_path / "model.pt")
    with pytest.raises(UserError, match="is no value: fairseq would run it"):
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


# --- archives -----------------------------------------------------------------------------------


def member(name, kind=tarfile.REGTYPE, content=b""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, "/etc/passwd", len(content)
    return info, io.BytesIO(content)


HOSTILE_MEMBERS = {
    "a path that climbs": [member("model/a"), member("model/../../b")],
    "an absolute path": [member("/tmp/x")],
    "a link": [member("model/link", tarfile.SYMTYPE)],
    "a hard link": [member("model/link", tarfile.LNKTYPE)],
    "a device": [member("model/null", tarfile.CHRTYPE)],
}


@pytest.mark.parametrize("name", HOSTILE_MEMBERS)
def test_archives_stay_in_their_folder(tmp_path, name):
    path = tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for info, content in HOSTILE_MEMBERS[name]:
            archive.addfile(info, content)
    with pytest.raises(UserError, match=r"model\.tar\.gz refused: its member"):
        RNNSearchModel.from_pretrained(str(path))
    assert [path.name for path in tmp_path.iterdir()] == ["model.tar.gz"]


def test_archives_that_do_not_fit_the_disk_or_are_none(tmp_path, monkeypatch):
    path = tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(*member("model/a", content=bytes(10**6)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=999_999))
    with pytest.raises(UserError, match=r"unpacks to 1,000,000 bytes, and 999,999 are free"):
        RNNSearchModel.from_pretrained(str(path))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="is no whole archive"):
        RNNSearchModel.from_pretrained(str(path))


# --- the commands -------------------------------------------------------------------------------


def test_options_of_every_command(barely_trained, tmp_path, trace):
    data, checkpoint = barely_trained.corpus.data, barely_trained.checkpoint
    overrides = f'--model-overrides "{code(trace)}"'
    task = "--user-dir fairseq_rnnsearch --task alignment_heatmap --cpu --batch-size 8"
    model = "--arch rnnsearch_tiny --max-update 1 --batch-size 8 --criterion alignment_heatmap"
    refused = together(
        lambda: generate(data, checkpoint, overrides),
        lambda: run(
            "python", "-m fairseq_cli.validate", data, task, f"--path={checkpoint}", overrides
        ),
        lambda: train(
            data, tmp_path / "a", model, "--optimizer adam", f'--adam-betas "{code(trace)}"'
        ),
        lambda: train(
            data,
            tmp_path / "b",
            model,
            f'--optimizer-overrides "{code(trace)}" --restore-file={checkpoint}',
        ),
    )
    for finished in refused:
        message = finished.error()
        assert "is no value" in message or "must be a dictionary" in message, message
    assert not trace.exists()
    assert not list(tmp_path.rglob("*.pt"))
