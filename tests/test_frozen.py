"""What d09b774 wrote is still read: checkpoints, models' folders, folders of begun recipes.

``make_frozen.sh`` made ``frozen.tar.xz`` with that commit's own commands.
"""

import json
import os
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import ROOT, SIZES, TINY_MODEL, run_process, train

from fairseq_rnnsearch import load

ARCHIVE = Path(__file__).with_name("frozen.tar.xz")
OPTIONS = (
    f"--arch rnnsearch_tiny {SIZES} --dropout 0.1 --criterion alignment_heatmap --clip-norm 1"
    " --optimizer rnnsearch_adadelta --batch-size 20 --store-ema --ema-decay 0.9"
    " --no-epoch-checkpoints --heatmap-samples 0"
)


def processor():
    """Products round by the processor's instructions: only here the bits must be the same."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = "vendor_id", "cpu family", "model\t"
    return [next(x.split(":")[1].strip() for x in lines if x.startswith(name)) for name in names]


def unpacked(part, folder):
    """Unpack a part of the archive into a folder, and return its path there."""
    with tarfile.open(ARCHIVE) as archive:
        members = [m for m in archive.getmembers() if m.name.split("/")[0] == part]
        archive.extractall(folder, members, filter="data")
    return folder / part


def arrays(value, name=""):
    """The tensors of a checkpoint, by their places in it."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from arrays(part, f"{name}/{key}")
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from arrays(part, f"{name}/{i}")


def test_a_checkpoint_of_the_middle_of_an_epoch_goes_on_to_the_same_bits(tmp_path):
    folder = unpacked("training", tmp_path)
    train(folder / "data", folder / "begun", OPTIONS, "--max-update 20").ok()
    found, expected = (
        torch.load(path, weights_only=True)
        for path in (folder / "begun/checkpoint_last.pt", folder / "ended.pt")
    )
    assert found["optimizer_history"][-1]["num_updates"] == 20
    made_here = processor() == json.loads((folder / "processor.json").read_text())
    for place in ("model", "last_optimizer_state", "extra_state"):
        mine, theirs = (dict(arrays(state[place])) for state in (found, expected))
        theirs = {name.replace("coder.network.", "coder."): x for name, x in theirs.items()}
        assert mine.keys() == theirs.keys() and (theirs or place == "extra_state")
        for name, value in theirs.items():
            if made_here:
                assert torch.equal(mine[name], value), name
            else:  # other processors sum in another order, and 11 updates add to the difference
                torch.testing.assert_close(mine[name], value, rtol=1e-3, atol=1e-5)
    assert any("ema" in name for name, _ in arrays(found["extra_state"]))


def test_models_translate_the_same(tmp_path):
    folder = unpacked("folders", tmp_path)
    for place, made in json.loads((folder / "translations.json").read_text()).items():
        languages = {"source_lang": "en", "target_lang": "fr"}
        model = load(
            folder / place, folder / "data" if place.endswith(".pt") else None, **languages
        )
        for expected in made:
            found = model.translate(expected["source"], beam=3)
            assert found.text == expected["text"], place
            np.testing.assert_allclose(found.score, expected["score"], atol=1e-5)
            np.testing.assert_allclose(found.weights, expected["weights"], atol=1e-5)


def continued(command, work, **environment):
    """Run a recipe's command again in a folder in which it was stopped in its training."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    begun = (work / "logs/train.log").read_text()
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PATH": path}
    ended = run_process(command, env=os.environ | environment, cwd=work.parent)
    assert ended.returncode == 0, ended.stderr
    return ended, (work / "logs/train.log").read_text().removeprefix(begun)


@pytest.mark.slow
def test_a_folder_of_rnnsearch_train_goes_on(tmp_path):
    folder = unpacked("own_data", tmp_path)
    settings = {**TINY_MODEL, "learning_rate": "0.01", "warmup": "1", "batch_size": "20"}
    settings |= {"vocabulary": "shortlist", "min_count": "1", "updates": "120", "beam": "3"}
    settings |= {"drawn": "2"}
    options = [f"--{name.lower().replace('_', '-')}={value}" for name, value in settings.items()]
    files = ["--source", "text/train.en", "--target", "text/train.fr", "--work", "work"]
    command = [sys.executable, "-m", "fairseq_rnnsearch.train", *files, *options]
    ended, log = continued(command, folder / "work")
    assert ended.stderr.count("done before") == 3
    assert "Loaded checkpoint" in log and "begin training epoch 1\n" not in log
    assert (folder / "work/translations").is_dir()


@pytest.mark.slow
def test_a_folder_of_the_quickstart_goes_on(tmp_path):
    work = unpacked("quickstart", tmp_path) / "work"
    settings = {"EPOCHS": "6", "TRAIN_SENTENCES": "1500", "TEST_SENTENCES": "20"}
    settings |= {"LEAST_BLEU": "0", "VENV": "none", "WORK": str(work)}
    ended, _ = continued(["bash", ROOT / "recipes/quickstart.sh"], work, **settings)
    assert ended.stderr.count("done before") == 2
    assert (work / "living.html").exists()
