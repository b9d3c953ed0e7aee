"""No file and no option runs code: each hostile one would leave a trace, and leaves none."""

import ast
import faulthandler
import gzip
import importlib.util
import io
import os
import pickle
import shutil
import signal
import sys
import tarfile
import zipfile
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import fairseq
import numpy as np
import pytest
import torch
from commands import RunsACommand, generate, run, together, train
from fairseq import checkpoint_utils, file_utils, utils
from fuzz_pickles import (
    BUILD,
    FOREIGN,
    NEWOBJ,
    NONE,
    PERSISTENT,
    TRUE,
    array,
    as_archive,
    as_legacy,
    call,
    checkpoint,
    dictionary_of,
    encoded,
    list_of,
    named,
    number,
    number_type,
    numbers,
    tensor,
    text,
    tuple_of,
)
from omegaconf import OmegaConf

from fairseq_rnnsearch.compat import mends, plain_pickle
from fairseq_rnnsearch.compat.evaluated_options import read_overrides, read_value
from fairseq_rnnsearch.data.packed_text import unpack
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.models import RNNSearchModel


@pytest.fixture(autouse=True)
def mended():
    """What is replaced while a checkpoint is read, in commands and in `load`."""
    with mends.applied():
        yield


pytest_plugins = ["trained"]


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
    from fairseq.tasks.translation import TranslationConfig, TranslationTask
    from models import dictionary

    cfg = TranslationConfig(source_lang="en", target_lang="fr")
    return TranslationTask(OmegaConf.structured(cfg), dictionary(symbols), dictionary(symbols))


@pytest.mark.parametrize("kind", ["cfg", "args"])
@pytest.mark.parametrize(
    ("architecture", "option"),
    [("fconv", "encoder_layers"), ("fconv", "decoder_layers"), ("fconv_self_att", "pretrained")],
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


# --- memory -------------------------------------------------------------------------------------


def in_child(work):
    """The exit status of a fork that does it; negative for a signal."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def objects_over_bytes(module="numpy._core"):
    """An array of "objects" that are addresses from the file: 0x4141414141414141."""
    objects = call("numpy dtype", text("O8"), b"\x89", TRUE)
    state = number(3), text("|"), NONE, NONE, NONE, number(-1), number(-1), number(0)
    return array(objects + tuple_of(*state) + BUILD, (1,), b"A" * 8, module)


OF_NUMPY = [np.ndarray, np.dtype, np._core.multiarray._reconstruct, np.dtypes.ObjectDType]


def test_torch_would_follow_an_address_from_the_file(tmp_path):
    """Once numpy's names are allowed."""
    path = tmp_path / "model.pt"
    path.write_bytes(as_archive(objects_over_bytes()))

    def attack():
        with torch.serialization.safe_globals(OF_NUMPY):
            repr(torch.load(path, weights_only=True)[0])

    assert in_child(attack) == -signal.SIGSEGV


def test_torch_would_recurse_without_bound(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(as_archive(DEEP_KEY % (b"\x85" * 200_000)))
    assert in_child(lambda: torch.load(path, weights_only=True)) == -signal.SIGSEGV


def test_torch_itself_is_as_without_the_package(tmp_path):
    """What it loads is not widened for anybody's files."""
    allowed = torch.serialization.get_safe_globals()
    assert all(getattr(kind, "__module__", "").startswith("torch.") for kind in allowed)
    path = tmp_path / "model.pt"
    for value in (Namespace(a=1), np.zeros(2), np.float64(1.0), OmegaConf.create({"a": 1})):
        torch.save(value, path)
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
            torch.load(path, weights_only=True)


FLAT = numbers("0", 6)
DEEP_KEY = b"})%b" + NONE + b"s"
DOUBLED = list_of(b"]q\0", *(b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(60)))
ITSELF = b"]q\1h\1a"


def state(value, content):
    return value + content + BUILD


REFUSED = {
    "objects over bytes": (objects_over_bytes(), r"numpy\.dtype in an unknown form"),
    "objects, old numpy": (objects_over_bytes("numpy.core"), r"numpy\.dtype in an unknown form"),
    "forged flags": (number_type("i8", flags=63), "content of an unknown kind"),
    "another order of bytes": (number_type("i8", ">"), "content of an unknown kind"),
    "fields": (
        state(
            call("numpy dtype", text("i8")),
            tuple_of(*map(number, (3,)), text("<"), NONE, tuple_of(text("a")), b"}", *[NONE] * 3),
        ),
        "content of an unknown kind",
    ),
    "an array larger than its bytes": (array(number_type("i8"), (9,), bytes(8)), "shape"),
    "an array of nothing": (array(number_type("i8"), (0, 2**39), b""), "shape"),
    "a negative shape": (array(number_type("i8"), (-1, -1), bytes(8)), "a size that is none"),
    "an array filled twice": (
        array(number_type("i8"), (1,), bytes(8)) + tuple_of(number(1)) + BUILD,
        "content of an unknown kind for list",
    ),
    "a scalar of other bytes": (
        call("numpy._core.multiarray scalar", number_type("i8"), encoded(b"abc")),
        "shape",
    ),
    "an array by itself": (named("numpy ndarray"), "a Name as a value"),
    "a call of numpy's array": (call("numpy ndarray", tuple_of(number(9))), "in an unknown form"),
    "a tensor beyond its numbers": (tensor(FLAT, (7,), (1,)), "larger than they are"),
    "an offset beyond": (tensor(FLAT, (1,), (1,), 6), "larger than they are"),
    "a negative offset": (tensor(FLAT, (1,), (1,), -1), "a size that is none"),
    "a stride beyond": (tensor(FLAT, (2, 2), (3, 3)), "larger than they are"),
    "a huge stride": (tensor(FLAT, (2,), (2**39,)), "larger than they are"),
    "a stride that wraps around": (tensor(FLAT, (2,), (2**63,)), "a size that is none"),
    "a negative stride": (tensor(FLAT, (2,), (-1,)), "a size that is none"),
    "one number as many": (tensor(FLAT, (2**30,), (0,)), "(memory|larger)"),
    "a size that wraps around": (tensor(FLAT, (2**39,) * 3, (0,) * 3), "memory"),
    "another number of strides": (tensor(FLAT, (2, 3), (1,)), "cannot be read"),
    "a tensor of a tensor": (tensor(tensor(FLAT, (2,), (1,)), (6,), (1,)), "in an unknown form"),
    "numbers of another size": (
        tensor(numbers("0", 7), (2,), (1,)),
        "the size that it declares|as of another kind",
    ),
    "numbers as of two kinds": (
        list_of(FLAT, numbers("0", 6, "torch IntStorage")),
        "once as of another kind",
    ),
    "numbers that are not there": (tensor(numbers("9", 6), (2,), (1,)), "cannot be read"),
    "numbers by themselves": (FLAT, "a Storage as a value"),
    "a module": (tuple_of(text("module"), *[text("x")] * 3) + PERSISTENT, "an unknown kind"),
    "a dictionary with a method": (
        state(call("collections OrderedDict"), dictionary_of(items=number(1))),
        "content of an unknown kind for OrderedDict",
    ),
    "content for a name": (state(named("argparse Namespace"), b"}"), "content of an unknown kind"),
    "names for a namespace": (
        state(call("argparse Namespace", operation=NEWOBJ), b"}(" + number(1) + NONE + b"u"),
        "content of an unknown kind for Namespace",
    ),
    "a call of a text": (text("a") + b")R", "a call of what cannot be called"),
    "a tuple as a key": (DEEP_KEY % b"\x85", "a key of the kind tuple"),
    "a tuple in tuples": (b")" + b"\x85" * 5000, "values within values"),
    "a list in itself": (ITSELF, "values within values"),
    "lists that hold others twice": (DOUBLED, "values within values"),
    "one text as many bytes": (
        b"](" + b"(" + text("x" * 500) + b"q\1" + text("latin1") + b"tq\2" + named("_codecs encode")
        + b"q\3h\2R" + b"h\3h\2R" * 100 + b"e",
        "many times the memory",
    ),
}  # fmt: skip
REFUSED |= {name: (named(name), f"it holds {name.replace(' ', '.')}, ") for name in FOREIGN}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_no_checkpoint_holds(tmp_path, name):
    value, message = REFUSED[name]
    path = tmp_path / "model.pt"
    for write in (as_archive, as_legacy):
        if write is as_legacy and "are not there" in name:
            continue
        path.write_bytes(write(checkpoint(extra_state=dictionary_of(a=value))))
        with pytest.raises(UserError, match=message) as caught:
            checkpoint_utils.load_checkpoint_to_cpu(str(path))
        assert str(caught.value).startswith(f"checkpoint {path} ")
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("bound", "most", "message"),
    [
        ("MOST_OPERATIONS", 5000, "more than 5,000 steps"),
        ("MOST_VALUES", 2000, "or more than 2,000"),
    ],
)
def test_a_byte_of_the_file_is_a_dictionary_of_64(tmp_path, monkeypatch, bound, most, message):
    path = tmp_path / "model.pt"
    path.write_bytes(as_archive(checkpoint(extra_state=dictionary_of(a=list_of(b"}" * 6000)))))
    checkpoint_utils.load_checkpoint_to_cpu(str(path))
    monkeypatch.setattr(plain_pickle, bound, most)
    with pytest.raises(UserError, match=message):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_options_that_grow_without_end(tmp_path):
    options = {"a0": "x" * 10} | {f"a{i}": f"${{model.a{i - 1}}}" * 10 for i in range(1, 30)}
    for place in ({"cfg": {"model": options}}, {"args": Namespace(**options)}):
        torch.save({"args": None, "cfg": None, "model": {}, **place}, tmp_path / "model.pt")
        with pytest.raises(UserError, match=r"refused: its option '.* refers to others"):
            checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model.pt"))


@pytest.mark.parametrize("kind", ["cfg", "args"])
@pytest.mark.parametrize("option", ["encoder_hidden_size", "decoder_embed_dim", "maxout_size"])
def test_a_model_larger_than_its_parameters(tmp_path, kind, option):
    options = {"_name": "rnnsearch", "arch": "rnnsearch_50", option: 10**5}
    place = {"cfg": {"model": options}} if kind == "cfg" else {"args": Namespace(**options)}
    model = {"a": torch.zeros(10**6)}
    torch.save({"args": None, "cfg": None, "model": model, **place}, tmp_path / "model.pt")
    with pytest.raises(UserError, match=rf"refused: its option {option} is 100,000, and its"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model.pt"))


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


def packed(path, content):
    with gzip.open(path, "wb") as file:
        file.writelines(content)


def header(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def sparse(blocks):
    """A member without holes whose list of holes goes on and on."""
    info = bytearray(header("model/a", 0, tarfile.GNUTYPE_SPARSE))
    info[482] = blocks > 0  # whether more of them follow
    info[148:156] = b" " * 8
    info[148:156] = b"%06o\0 " % sum(info)
    return [bytes(info), *[bytes(504) + b"\1" + bytes(7)] * blocks]


ZEROS, DESCRIBED = [bytes(2**20)], "described in more than"
BOMBS = {
    "a member that grows": ([header("model/a", 2**26), *ZEROS * 64], "more than [0-9,]+ bytes"),
    "a member larger than the disk": ([header("model/a", 2**60)], "are free"),
    "a name that grows": (
        [header("././@LongLink", 2**28, tarfile.GNUTYPE_LONGNAME), *ZEROS], DESCRIBED
    ),
    "properties that grow": ([header("x", 2**28, tarfile.XHDTYPE), *ZEROS], DESCRIBED),
    "a hundred thousand empty members": ([header("model/a", 0)] * 10**5, DESCRIBED),
    "holes without end": (sparse(10**5), "(described in|unpacks to) more than"),
    "holes": (sparse(0) + [bytes(10240)], "is a link, no plain file"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_archives_that_grow_without_bound(tmp_path, name):
    content, message = BOMBS[name]
    path = tmp_path / "model.tar.gz"
    packed(path, content)
    with pytest.raises(UserError, match=rf"model\.tar\.gz refused: .*{message}") as caught:
        RNNSearchModel.from_pretrained(str(path))
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["model.tar.gz"]


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_sound_archives_are_unpacked(tmp_path, kind):
    path = tmp_path / f"model.tar.{kind}"
    content = os.urandom(10**6)
    with tarfile.open(path, f"w:{kind}") as archive:
        archive.addfile(*member("model/a", content=content))
        archive.addfile(*member("model/b"))
    folder = Path(file_utils.load_archive_file(str(path)))
    assert (folder / "a").read_bytes() == content and (folder / "b").read_bytes() == b""


def test_an_archive_of_another_kind(tmp_path):
    (tmp_path / "model.zip").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"model\.zip is no folder and no \.tar\.gz"):
        RNNSearchModel.from_pretrained(str(tmp_path / "model.zip"))


def test_archives_that_do_not_fit_the_disk_or_are_none(tmp_path, monkeypatch):
    path = tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(*member("model/a", content=bytes(10**6)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=999_999))
    with pytest.raises(UserError, match=r"unpacks to 1,000,000 bytes, and 999,999 are free"):
        RNNSearchModel.from_pretrained(str(path))
    monkeypatch.undo()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="is no whole archive"):
        RNNSearchModel.from_pretrained(str(path))


def recipe(name):
    """The reader of text of a recipe, with a bound of a million bytes."""
    path = Path(__file__).parents[1] / "recipes" / name / "corpus.py"
    spec = importlib.util.spec_from_file_location(f"corpus_of_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.MOST = 10**6
    return module


def test_text_that_grows_without_bound(tmp_path):
    content = gzip.compress(bytes(10**6 + 1))
    with pytest.raises(UserError, match="unpacks to more than 1,000,000 bytes"):
        unpack(content, "train.en.gz", 10**6)
    assert unpack(gzip.compress(bytes(10**6)), "train.en.gz", 10**6) == bytes(10**6)
    for name in ("train.en.gz", "train.fr.gz"):
        (tmp_path / name).write_bytes(content)
    multi30k, hansards = recipe("multi30k"), recipe("hansards")
    with pytest.raises(UserError, match="unpacks to more than 1,000,000 bytes"):
        multi30k.from_folder(tmp_path, "train.en")
    with pytest.raises(UserError, match="unpacks to more than 1,000,000 bytes"):
        hansards.read_pairs(str(tmp_path / "train"))
    with zipfile.ZipFile(tmp_path / "fra-eng.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("fra.txt", "a" * (10**6 + 1))
    with pytest.raises(UserError, match="has 1,000,001 bytes, more than"):
        hansards.read_pairs(str(tmp_path / "fra-eng.zip"))


# --- the commands -------------------------------------------------------------------------------


def test_options_of_every_command(barely_trained, tmp_path, trace):
    data, checkpoint = barely_trained.corpus.data, barely_trained.checkpoint
    overrides = f'--model-overrides "{code(trace)}"'
    task = "--user-dir fairseq_rnnsearch --task alignment_heatmap --cpu --batch-size 8"
    model = "--arch rnnsearch_tiny --max-update 1 --batch-size 8 --criterion alignment_heatmap"
    refused = together(
        lambda: generate(data, checkpoint, overrides),
        lambda: run("fairseq-validate", data, task, f"--path={checkpoint}", overrides),
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
