"""Files that are no checkpoint, or a damaged one: each in one line that names it."""

import io
import math
import shutil
import zipfile
from argparse import Namespace

import numpy as np
import pytest
import torch
from commands import MODEL, assert_equal_folders
from fairseq import checkpoint_utils
from hypothesis import given
from hypothesis import strategies as st
from models import build_model, checkpoint_state, dictionary
from test_damaged_files import damaged, many_examples

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.runs.checkpoint import read_checkpoint
from fairseq_rnnsearch.runs.checkpoint_file import verify
from fairseq_rnnsearch.text.compatibility import check, describe

pytestmark = pytest.mark.usefixtures("patched")


def sound(**changes):
    return checkpoint_state(**{"model": build_model().state_dict()} | changes)


def rewrite(path, change):
    """Change the description of a checkpoint inside its archive."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, change(content) if name.endswith("/data.pkl") else content)


def load(path):
    return checkpoint_utils.load_checkpoint_to_cpu(str(path))


SHARED = torch.randn(4, 5)
KINDS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32]
KINDS += [torch.int16, torch.int8, torch.uint8, torch.bool]
VALUES = {
    "kinds": [torch.arange(6).to(kind) for kind in KINDS],
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


# --- damaged, or something else ------------------------------------------------------------------


def test_a_bit_of_the_numbers(tmp_path):
    """torch stores checksums and never looks at them."""
    path = tmp_path / "model.pt"
    torch.save(sound(model={"a": torch.randn(5000)}), path)
    load(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    assert torch.load(path, weights_only=True)["model"]["a"].shape == (5000,)  # without a word
    with pytest.raises(UserError, match=r"model\.pt is damaged: its part .*data/0"):
        load(path)


@many_examples
@given(data=st.data())
def test_an_altered_description_is_read_or_refused_in_one_line(tmp_path, data):
    """With checksums that are right: a stranger can make them so."""
    path = tmp_path / "model.pt"
    old = {"counts": np.array([1, 2]), "mean": np.float64(3), "options": Namespace(a=1)}
    torch.save(checkpoint_state(model={"a": torch.ones(3)}, extra_state=old), path)
    rewrite(path, lambda content: data.draw(damaged(content)))
    try:
        load(path)
    except UserError as mistake:
        assert str(mistake).startswith(f"checkpoint {path} ") and "\n" not in str(mistake)


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


def test_parameters_that_are_not_finite():
    model = build_model()
    state = model.state_dict()
    state["decoder.output.bias"][3] = math.nan
    with pytest.raises(UserError, match=r"1 of 28 parameters .* decoder\.output\.bias"):
        model.load_state_dict(state)


def test_other_words_are_told_apart():
    words, swapped, fewer = dictionary(9), dictionary(9), dictionary(7)
    swapped.symbols[5], swapped.symbols[6] = swapped.symbols[6], swapped.symbols[5]
    trained = describe({"source": words, "target": words})

    def compare(state, **sides):
        check(describe(sides), state, "data/dict.fr.txt", "the checkpoint was trained with")

    compare(trained, source=dictionary(9), target=words)
    compare(None, source=fewer, target=fewer)  # from before
    with pytest.raises(UserError, match=r"target dictionary has 9 symbols \(data/dict\.fr\.txt\)"):
        compare(trained, source=words, target=swapped)
    with pytest.raises(UserError, match=r"source dictionary has 7 symbols .* with 9 symbols"):
        compare(trained, source=fewer, target=words)


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


def test_counts_of_bleu_go_on(train, tmp_path):
    """With those that fairseq has saved, and as they are saved here."""
    begun, before = tmp_path / "begun", tmp_path / "before"
    detail = {"eval_bleu": True, "eval_bleu_detok": "space", "save_interval_updates": 0}
    detail["eval_bleu_args"] = '{"beam": 2, "max_len_a": 0, "max_len_b": 4}'
    train(begun, **detail, max_update=2)
    shutil.copytree(begun, before)
    as_before(before / "checkpoint_last.pt")
    for folder in (begun, before):
        again = train(folder, **detail, max_update=4)
        assert "@ 2 updates)" in again and "bleu" in again
    assert_equal_folders(begun, before)


@pytest.mark.slow
@pytest.mark.parametrize("options", [BLEU, LSTM], ids=["arrays", "a namespace"])
def test_two_processes_go_on_from_what_one_reads(launchpad, small_corpus, tmp_path, options):
    command = small_corpus.data, options, f"--save-dir={tmp_path}"
    for finished in launchpad.train_together(2, *command, "--max-update 2"):
        finished.ok()
    if options == BLEU:
        as_before(tmp_path / "checkpoint_last.pt")
    held = b"numpy" if options == BLEU else b"argparse"
    assert held in (tmp_path / "checkpoint_last.pt").read_bytes()
    again = launchpad.train_together(2, *command, "--max-update 3")
    assert "@ 2 updates)" in again[0].ok().out
    again[1].ok()
