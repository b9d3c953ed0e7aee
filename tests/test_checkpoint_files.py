"""Files that are no checkpoint, or a damaged one: each in one line that names it."""

import math

import pytest
import torch
from conftest import build_model, dictionary
from fairseq import checkpoint_utils

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.tasks import vocabulary

pytestmark = pytest.mark.survives("damaged checkpoint")


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
    with pytest.raises(
        UserError, match=r"model\.pt (cannot be read|holds no parameters)"
    ) as caught:
        load(tmp_path / "model.pt")
    assert "\n" not in str(caught.value)


def test_no_file_and_no_zip(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.pt does not exist"):
        load(tmp_path / "nowhere.pt")
    (tmp_path / "text.pt").write_text("text")
    with pytest.raises(UserError, match=r"text\.pt (cannot be read|refused)"):
        load(tmp_path / "text.pt")


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
