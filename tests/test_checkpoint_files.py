"""Files that are no checkpoint, or a damaged one: each in one line that names it."""

import io
import math
import shutil
import struct
import zipfile
from argparse import Namespace

import numpy as np
import pytest
import torch
from commands import MODEL, assert_equal_tensors, parameters_and_optimizer
from fairseq import checkpoint_utils
from fairseq.logging.meters import AverageMeter, SumMeter
from fuzz_pickles import CONTENT, as_archive, as_legacy, checkpoint, dictionary_of, numbers, tensor
from models import build_model, dictionary

from fairseq_rnnsearch.compat import checkpoint_files, mends, plain_pickle, trainer
from fairseq_rnnsearch.compat.checkpoint_format import check_format
from fairseq_rnnsearch.compat.checkpoints import progress, read_checkpoint, verify
from fairseq_rnnsearch.data import zip_files
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.tasks import vocabulary


@pytest.fixture(autouse=True)
def mended():
    """What is replaced while a checkpoint is read, in commands and in `load`."""
    with mends.applied():
        yield


pytest_plugins = ["trained"]


def sound(**changes):
    history = {"criterion_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    state = {"args": None, "cfg": {}, "model": build_model().state_dict(), "extra_state": {}}
    return {**state, "optimizer_history": [history], **changes}


def load(path):
    return checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_a_sound_one_is_loaded(tmp_path):
    state = sound()
    for name, is_zip in (("new.pt", True), ("old.pt", False)):
        torch.save(state, tmp_path / name, _use_new_zipfile_serialization=is_zip)
        found = load(tmp_path / name)["model"]
        assert found.keys() == state["model"].keys()
        assert all(torch.equal(found[key], value) for key, value in state["model"].items())


SHARED = torch.randn(4, 5)
VALUES = {
    "kinds": [torch.arange(6).to(kind) for kind in plain_pickle.STORAGES.values()],
    "a transposed tensor": SHARED.t(),
    "a part of a tensor": SHARED[1:3, ::2],
    "tensors that share": [SHARED, SHARED.view(-1), SHARED],
    "nothing and a single number": [torch.zeros(0, 5), torch.tensor(2.5), torch.zeros(0)],
    "a parameter": torch.nn.Parameter(torch.ones(2)).detach(),
    "plain values": [None, True, False, -1, 2**70, 1e300, "\u00e9\ud800", (), (1, (2, 3)), {7: {}}],
    "options": Namespace(arch="lstm", betas=(0.9, 0.98), layers=[1, 2]),
    "a state_dict": torch.nn.Linear(2, 3).state_dict(),
}


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("name", VALUES)
def test_values_are_as_torch_reads_them(tmp_path, name, is_zip):
    path = tmp_path / "model.pt"
    torch.save(VALUES[name], path, _use_new_zipfile_serialization=is_zip)
    found, expected = read_checkpoint(path), torch.load(path, weights_only=False)
    again = [io.BytesIO(), io.BytesIO()]
    for value, file in zip((found, expected), again, strict=True):
        torch.save(value, file)
    assert again[0].getvalue() == again[1].getvalue()
    assert repr(found) == repr(expected)
    assert getattr(found, "_metadata", None) == getattr(expected, "_metadata", None)
    verify(path)


def test_arrays_of_older_files_become_lists(tmp_path):
    counts = np.array([[1, 2], [3, 4]])
    state = {"counts": counts, "again": counts, "mean": np.float64(0.5), "one": np.int32(7)}
    torch.save(state, tmp_path / "old.pt")
    lists = [[1, 2], [3, 4]]
    expected = {"counts": lists, "again": lists, "mean": 0.5, "one": 7}
    assert read_checkpoint(tmp_path / "old.pt") == expected


@pytest.mark.parametrize("kind", [AverageMeter, SumMeter])
def test_meters_keep_arrays_as_lists(tmp_path, kind):
    meter, again = kind(), kind()
    meter.update(np.array([4, 6]))
    groups = trainer._with_lists({"train": [(10, "n", kind.__name__, meter.state_dict())]})
    torch.save(groups, tmp_path / "meter.pt")
    found = trainer._with_arrays(torch.load(tmp_path / "meter.pt", weights_only=True))
    again.load_state_dict(found["train"][0][3])
    again.update(np.array([1, 0]))
    assert again.sum.tolist() == [5, 6]


def test_truth_values_are_true_or_false(tmp_path):
    part = tensor(numbers("1", 16, "torch BoolStorage"), (16,), (1,))
    for write in (as_archive, as_legacy):
        only = {"1": bytes(range(16))}
        content = write(dictionary_of(a=part), only, *([1] if write is as_legacy else []))
        (tmp_path / "model.pt").write_bytes(content)
        found = read_checkpoint(tmp_path / "model.pt")["a"]
        assert found.view(torch.uint8).tolist() == [0] + [1] * 15


@pytest.mark.parametrize("is_zip", [True, False])
def test_progress_is_read_without_the_numbers(tmp_path, is_zip):
    state = sound(extra_state={"train_iterator": {}}, last_optimizer_state={"state": 1})
    path = tmp_path / "model.pt"
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)
    assert progress(path) == (1, 0)
    assert set(read_checkpoint(path, tensors=False)["model"].values()) == {None}


# --- files that are more than they seem -----------------------------------------------------------


def archive(compression=zipfile.ZIP_STORED, again=(), order=b"little"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        out.writestr("archive/data.pkl", b"\x80\x02" + checkpoint() + b".")
        out.writestr("archive/byteorder", order)
        for key, part in CONTENT.items():
            out.writestr(f"archive/data/{key}", part)
        for name in again:
            out.writestr(name, b"x")
    return file.getvalue()


def overlapping():
    """A part whose place in the list is that of another."""
    content = as_archive(checkpoint())
    first, second = (content.rindex(f"archive/data/{key}".encode()) for key in "01")
    place = slice(first - 4, first)
    return content[: second - 4] + content[place] + content[second:]


def twice_in_the_list():
    """Twice in the list of parts, and once in the file."""
    content = archive()
    size, start = struct.unpack("<LL", content[-10:-2])
    count = len(CONTENT) + 3
    head = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, size * 2, start, 0)
    return content[:-22] + content[start : start + size] + head


DECLARED = "the numbers that it declares"
UNDECLARED = f"does not hold {DECLARED}"
BOMBS = {
    "compressed": (lambda: archive(zipfile.ZIP_DEFLATED), "is compressed"),
    "a part twice": (lambda: archive(again=["archive/data/0"]), "data/0' twice"),
    "a part in two folders": (lambda: archive(again=["other/data.pkl"]), "data.pkl' twice"),
    "parts on each other": (overlapping, "lies on another"),
    "parts listed twice": (twice_in_the_list, "twice|lies on another|cannot be read"),
    "another machine's": (lambda: archive(order=b"big"), "another order of bytes"),
    "a long list of parts": (
        lambda: archive(again=[f"archive/{i}" for i in range(50)]),
        "list of parts has more than 2,000 bytes",
    ),
    "a long description": (
        lambda: as_archive(checkpoint() + b"N0" * 2000),
        "description has more than 3,000 bytes",
    ),
    "fewer numbers than declared": (
        lambda: as_legacy(checkpoint(), {"0": bytes(24)})[:-4],
        "cannot be read .* ends within 0",
    ),
    "more numbers than the file has bytes": (
        lambda: as_legacy(dictionary_of(a=tensor(numbers("0", 2**33), (2,), (1,)))),
        f"shorter than {DECLARED}",
    ),
    "numbers that are left out": (lambda: as_legacy(checkpoint(), {}), UNDECLARED),
    "numbers that nobody declares": (lambda: as_legacy(checkpoint(), CONTENT), UNDECLARED),
    "numbers of another size": (
        lambda: as_legacy(checkpoint(), {"0": bytes(20)}),
        "has not the size that it declares",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_files_that_are_more_than_they_seem(tmp_path, monkeypatch, name):
    monkeypatch.setattr(zip_files, "MOST_OF_LIST", 2000)
    monkeypatch.setattr(checkpoint_files, "MOST_OF_DESCRIPTION", 3000)
    make, message = BOMBS[name]
    path = tmp_path / "model.pt"
    path.write_bytes(make())
    with pytest.raises(UserError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(f"checkpoint {path} ")
    if "description" not in name and "order" not in message:
        with pytest.raises(UserError, match=message):
            verify(path)


def test_sixteen_megabytes_of_zeros_are_refused_unread(tmp_path):
    """The issue's: small as a file, without bound in memory."""
    torch.save(sound(model={"a": torch.zeros(2**22)}), tmp_path / "sound.pt")
    with zipfile.ZipFile(tmp_path / "sound.pt") as stored:
        packed = zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED)
        for name in stored.namelist():
            packed.writestr(name, stored.read(name))
        packed.close()
    assert (tmp_path / "bomb.pt").stat().st_size < 30_000
    for read in (load, verify, progress):
        with pytest.raises(UserError, match=r"bomb\.pt refused: its part .* is compressed"):
            read(tmp_path / "bomb.pt")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.7])
def test_a_bit_of_the_numbers(tmp_path, share):
    """torch stores checksums and never looks at them."""
    path = tmp_path / "model.pt"
    torch.save(sound(model={"a": torch.randn(5000)}), path)
    content = bytearray(path.read_bytes())
    content[int(len(content) * share)] ^= 4
    load(path)
    path.write_bytes(content)
    changed = torch.load(path, weights_only=True)["model"]["a"]
    assert changed.shape == (5000,)  # without a word
    with pytest.raises(UserError, match=r"model\.pt is damaged: its part .*data/0"):
        load(path)


NONE = {
    "a list": [1, 2],
    "a dictionary": {"a": 1},
    "parameters alone": {"a": torch.zeros(3)},
    "a text for a model": sound(model="x"),
    "a text for a parameter": sound(model={"a": "x"}),
    "a number": 3,
}


@pytest.mark.parametrize("name", NONE)
def test_something_else_that_torch_loads(tmp_path, name):
    torch.save(NONE[name], tmp_path / "model.pt")
    message = r"model\.pt (cannot be read|holds no parameters)[^\n]*$"
    with pytest.raises(UserError, match=message):
        load(tmp_path / "model.pt")


def test_no_file_and_no_zip(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.pt does not exist"):
        load(tmp_path / "nowhere.pt")
    (tmp_path / "text.pt").write_text("text")
    with pytest.raises(UserError, match=r"text\.pt (cannot be read|refused)"):
        load(tmp_path / "text.pt")


def test_only_the_optimizers_state_may_be_none():
    check_format("a.pt", {"last_optimizer_state": None, "extra_state": {"val_loss": None}})
    with pytest.raises(UserError, match=r"a\.pt: its extra_state is None, and must be a dict"):
        check_format("a.pt", {"last_optimizer_state": None, "extra_state": None})


def test_parameters_that_are_not_finite():
    model = build_model()
    state = model.state_dict()
    state["decoder.network.output.bias"][3] = math.nan
    with pytest.raises(UserError, match=r"1 of 28 parameters .* decoder\.network\.output\.bias"):
        model.load_state_dict(state)


def test_other_words_are_told_apart():
    words, swapped, fewer = dictionary(9), dictionary(9), dictionary(7)
    swapped.symbols[5], swapped.symbols[6] = swapped.symbols[6], swapped.symbols[5]
    swapped.path = "data/dict.fr.txt"
    trained = vocabulary.describe({"source": words, "target": words})
    vocabulary.check_words(trained, {"source": dictionary(9), "target": words})
    vocabulary.check_words(None, {"source": fewer, "target": fewer})  # from before
    with pytest.raises(UserError, match=r"target dictionary has 9 symbols \(data/dict\.fr\.txt\)"):
        vocabulary.check_words(trained, {"source": words, "target": swapped})
    with pytest.raises(UserError, match=r"source dictionary has 7 symbols, .* with 9 symbols"):
        vocabulary.check_words(trained, {"source": fewer, "target": words})


# --- resumed --------------------------------------------------------------------------------------

BLEU = (
    f"{MODEL} --criterion alignment_heatmap --optimizer adam --lr 0.01 --batch-size 20 --seed 3"
    """ --eval-bleu --eval-bleu-args '{"beam": 2, "max_len_a": 0, "max_len_b": 4}'"""
    " --eval-bleu-detok space --heatmap-samples 0 --no-epoch-checkpoints"
)
LSTM = (
    "--arch lstm --encoder-embed-dim 8 --encoder-hidden-size 8 --decoder-embed-dim 8"
    " --decoder-hidden-size 8 --decoder-out-embed-dim 8 --criterion cross_entropy"
    " --optimizer adagrad --lr 0.01 --batch-size 20 --no-epoch-checkpoints --heatmap-samples 0"
)


def as_before(checkpoint):
    """With the counts of BLEU as fairseq saves them."""
    state = torch.load(checkpoint, weights_only=True)
    groups = state["extra_state"]["metrics"].values()
    meters = [meter for group in groups for *_, meter in group]
    lists = [(meter, name) for meter in meters for name in meter if type(meter[name]) is list]
    assert lists
    for meter, name in lists:
        meter[name] = np.array(meter[name])
    torch.save(state, checkpoint)


@pytest.mark.slow
def test_counts_of_bleu_go_on(launchpad, small_corpus, tmp_path):
    begun = tmp_path / "begun"
    launchpad.train(small_corpus.data, BLEU, f"--save-dir={begun} --max-update 2").ok()
    shutil.copytree(begun, tmp_path / "before")
    as_before(tmp_path / "before" / "checkpoint_last.pt")
    ended = []
    for name in ("begun", "before"):
        again = launchpad.train(
            small_corpus.data, BLEU, f"--save-dir={tmp_path / name} --max-update 4"
        ).ok()
        assert "@ 2 updates)" in again.out and "bleu" in again.out
        ended.append(parameters_and_optimizer(tmp_path / name / "checkpoint_last.pt"))
    assert_equal_tensors(*ended)


@pytest.mark.parametrize(
    ("options", "held"), [(BLEU, b"numpy"), (LSTM, b"argparse")], ids=["arrays", "a namespace"]
)
def test_two_processes_go_on_from_what_one_reads(launchpad, small_corpus, tmp_path, options, held):
    command = small_corpus.data, options, f"--save-dir={tmp_path}"
    for finished in launchpad.train_together(2, *command, "--max-update 2"):
        finished.ok()
    if options == BLEU:
        as_before(tmp_path / "checkpoint_last.pt")
    assert held in (tmp_path / "checkpoint_last.pt").read_bytes()
    again = launchpad.train_together(2, *command, "--max-update 3")
    assert "@ 2 updates)" in again[0].ok().out
    again[1].ok()
