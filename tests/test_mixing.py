"""Our parts with fairseq's own."""

import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from commands import (
    LAST_ONLY,
    MODEL,
    PACKAGE,
    PAPER,
    QUIET,
    SIZES,
    TASK,
    Watch,
    assert_equal_folders,
    generate,
    hydra_options,
    interactive,
    run,
    run_installed,
    together,
    train,
)
from PIL import Image
from slow_cases import cases

import fairseq_rnnsearch
from fairseq_rnnsearch import UserError, load
from fairseq_rnnsearch.models import conversion
from fairseq_rnnsearch.models.conversion import to_folder
from fairseq_rnnsearch.plugin.model import RNNSearchModel

pytest_plugins = ["trained"]

EN_FR = str(Path(fairseq_rnnsearch.__file__).with_name("pretrained") / "en-fr")
OURS = "--criterion alignment_heatmap"
ADAM = "--optimizer adam --lr 0.01 --batch-size 20"
TRANSFORMER = (
    "--arch transformer --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16"
    " --decoder-embed-dim 16 --encoder-ffn-embed-dim 16 --decoder-ffn-embed-dim 16"
    " --encoder-attention-heads 2 --decoder-attention-heads 2"
)
LSTM = (
    "--arch lstm --encoder-embed-dim 16 --encoder-hidden-size 16 --decoder-embed-dim 16"
    " --decoder-hidden-size 16 --decoder-out-embed-dim 16"
)
MIXTURES = {
    "adam and label smoothing": f"{MODEL} {ADAM} --criterion label_smoothed_cross_entropy"
    " --label-smoothing 0.1",
    "cross entropy and fairseq's task": f"{MODEL} {ADAM} --criterion cross_entropy"
    " --task translation",
    "our criterion, fairseq's task": f"{MODEL} {ADAM} {OURS} --task translation",
    "RNNencdec": f"--arch rnnencdec_30 {SIZES} {PAPER}",
    "batches of so many words": f"{MODEL} {OURS} --optimizer rnnsearch_adadelta --max-tokens 200"
    " --batch-order fairseq --lr-scheduler reduce_lr_on_plateau --lr 0.5",
    "fairseq's LSTM": f"{LSTM} {ADAM} {OURS} --rdrop-alpha 1",
    "fairseq's transformer": f"{TRANSFORMER} {ADAM} {OURS}",
    "everything else": f"{MODEL} {PAPER} --update-freq 2 --store-ema --decoder-order appendix"
    " --output-layer factorised --dropout 0.1 --rdrop-alpha 2 --heatmap-samples 1 --lr 0.5"
    " --lr-scheduler inverse_sqrt --warmup-updates 2",
}

QUICK = "adam and label smoothing", "fairseq's LSTM", "everything else"  # which share nothing


@pytest.mark.parametrize("name", cases(MIXTURES, *QUICK))
def test_trained_resumed_and_translated(name, small_corpus, tmp_path):
    options = MIXTURES[name]
    data = small_corpus.data
    last = tmp_path / "model" / "checkpoint_last.pt"
    first = train(data, tmp_path / "model", "--max-epoch 1", options).ok()
    updates = re.search(r"end of epoch 1 .*\n.* num_updates (\d+)", first.out).group(1)
    task = "--task translation" if "--task translation" in options else ""
    second, translated = together(
        lambda: train(data, tmp_path / "model", "--max-epoch 2", options).ok(),
        lambda: generate(data, last.with_name("checkpoint1.pt"), f"--beam 2 {task}").ok(),
    )
    assert f"@ {updates} updates" in second.out
    assert "end of epoch 2" in second.out
    if not task:  # fairseq's own loses some
        assert sorted(translated.hypotheses()) == list(range(13))


@pytest.fixture(scope="module")
def sharp(small_corpus, tmp_path_factory):
    """The model of the manual, in a folder of its own, trained for an update."""
    folder = tmp_path_factory.mktemp("own")
    manual = (PACKAGE / "manual" / "extend.md").read_text()
    plugin, program = re.findall(r"```python\n(.*?)```", manual, re.S)
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text(plugin)
    options = f"--user-dir={folder / 'mine'} --arch sharp_256 {SIZES} {PAPER} --max-update 1"
    train(small_corpus.data, folder / "checkpoints", options).ok()
    (folder / "data-bin").symlink_to(small_corpus.data)
    return folder, program


def test_a_model_of_ones_own_translates_and_is_not_exported(sharp, tmp_path):
    folder, _ = sharp
    mine, checkpoint = folder / "mine", folder / "checkpoints" / "checkpoint_last.pt"
    (tmp_path / "text").write_text("red house\n")
    translate = "fairseq_rnnsearch.commands.translate", checkpoint, tmp_path / "text"
    refused = run(*translate).error()
    said = "the model is of --arch sharp_256, which nothing has registered: give the folder"
    assert refused.startswith(f"checkpoint {checkpoint}: {said}")
    refused = generate(folder / "data-bin", checkpoint).error()
    assert refused.startswith(f"checkpoint {checkpoint}: {said}")
    state = torch.load(checkpoint, weights_only=True)
    state["cfg"]["task"] = {
        "_name": "translation",
        **{name: state["cfg"]["task"][name] for name in ("data", "source_lang", "target_lang")},
    }
    torch.save(state, other := tmp_path / "translation.pt")
    assert said in run(translate[0], other, translate[2]).error()
    assert run(*translate, "--user-dir", mine).ok().out
    export = "fairseq_rnnsearch.commands.export", checkpoint, "--user-dir", mine
    refused = run(*export, "--out", tmp_path / "folder").error()
    assert "(the model: SharpModel)" in refused
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("change", ["decoder", "size"])
def test_what_a_folder_cannot_keep_is_not_exported(change, learned, tmp_path, monkeypatch):
    read = conversion.read_models

    def changed(*given):
        trained = read(*given)
        decoder = trained.models[0].decoder
        if change == "decoder":
            decoder.__class__ = type("Louder", (type(decoder),), {"__module__": "mine"})
        else:
            attends = decoder.alignment_model
            attends.energy_weight = torch.nn.Parameter(torch.ones(7))
        return trained

    monkeypatch.setattr(conversion, "read_models", changed)
    what = {"decoder": r"\(decoder: Louder\)", "size": r"\(alignment_model.energy_weight, which"}
    with pytest.raises(UserError, match=what[change]):
        to_folder(str(learned.checkpoint), str(learned.corpus.data), tmp_path / "folder")


def test_a_model_in_a_torch_program(sharp, tmp_path):
    folder, program = sharp
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=folder, capture_output=True, text=True
    )
    assert re.fullmatch(r"\d+\.\d+ torch.Size\(\[2, \d+, \d+\]\)\n", ran.stdout), ran.stderr


def test_fairseqs_lstm_in_an_ensemble_and_exported(learned, tmp_path):
    data, lstm = learned.corpus.data, tmp_path / "checkpoint_last.pt"
    train(data, tmp_path, f"{LSTM} {ADAM} {OURS} --max-update 1 --no-epoch-checkpoints").ok()
    weights = load([learned.checkpoint, lstm], data).translate("red house").weights
    assert weights.sum(axis=1) == pytest.approx(np.ones(len(weights)), abs=1e-6)
    with pytest.raises(UserError, match="the checkpoint holds a LSTMModel; a folder takes RNNsea"):
        to_folder(str(lstm), str(data), tmp_path / "model")


def test_fairseqs_lstm_shows_its_attention(small_corpus, tmp_path):
    data, lstm, drawn = small_corpus.data, tmp_path / "checkpoint_last.pt", tmp_path / "drawn"
    options = "--max-update 1 --no-epoch-checkpoints --heatmap-samples 1"
    trained = train(data, tmp_path, f"{LSTM} {ADAM} {OURS} {options}").ok()
    assert re.search(r"valid on 'valid' subset .* attn_entropy", trained.out)
    assert list((tmp_path / "heatmaps").rglob("*.png"))
    short = f"--max-len-b 5 --heatmap-samples 1 --heatmap-dir {drawn}"
    generate(data, lstm, short).ok()
    assert (drawn / "sentence0000.png").exists()
    interactive(data, lstm, "--max-len-b 5 --replace-unk ''", stdin="red house\n").ok()
    blind = f"{LSTM} {ADAM} {OURS} {options} --decoder-attention 0"
    train(data, tmp_path / "blind", blind).ok()
    refused = generate(data, tmp_path / "blind" / lstm.name, short).error()
    assert "heatmaps need alignment weights, and this model gives none" in refused


def test_tensorboard(small_corpus, tmp_path):
    pytest.importorskip("tensorboardX")
    logs = tmp_path / "logs"
    train(
        small_corpus.data,
        tmp_path / "model",
        f"{MODEL} {PAPER} --max-update 2 --log-interval 1 --heatmap-samples 1",
        f"--tensorboard-logdir={logs}",
    ).ok()
    written = {folder.name for folder in logs.iterdir() if any(folder.glob("events.*"))}
    assert {"train_inner", "train", "valid", "alignments"} <= written
    (events,) = (logs / "valid").glob("events.*")
    assert b"nats_per_sentence" in events.read_bytes()
    (events,) = (logs / "alignments").glob("events.*")
    assert b"alignment/valid0000" in events.read_bytes()
    # an image's own bytes are in the file
    (drawn,) = (tmp_path / "model/heatmaps/epoch001").glob("*.png")
    begin = events.read_bytes().index(b"\x89PNG")
    with Image.open(io.BytesIO(events.read_bytes()[begin:])) as image, Image.open(drawn) as picture:
        assert (np.asarray(image.convert("L")) == np.asarray(picture.convert("L"))).all()


def test_bleu_in_validation_stops_early_and_resumes(small_corpus, tmp_path):
    folder = tmp_path / "model"
    options = (
        f"{MODEL} {OURS} --optimizer adam --lr 1e-9 --batch-size 20 --eval-bleu"
        """ --eval-bleu-args '{"beam": 2, "max_len_a": 0, "max_len_b": 4}'"""
        " --eval-bleu-detok space --eval-bleu-remove-bpe --best-checkpoint-metric bleu"
        f" --maximize-best-checkpoint-metric --heatmap-samples 1 --heatmap-dir {folder}/drawn"
    )
    stopped = train(small_corpus.data, folder, options, "--patience 2 --max-epoch 9").ok()
    assert "early stop since valid performance hasn't improved for last 2 runs" in stopped.out
    assert "end of epoch 3" in stopped.out and "end of epoch 4" not in stopped.out
    bleu = re.findall(r"valid on 'valid' subset .* \| bleu ([\d.]+)", stopped.out)
    assert len(bleu) == 3
    resumed = train(small_corpus.data, folder, options, "--max-epoch 4").ok()
    assert "Loaded checkpoint" in resumed.out and "end of epoch 4" in resumed.out
    assert (folder / "checkpoint_best.pt").exists()
    assert not (folder / "drawn/sentence0000.png").exists()  # only validations are drawn


def test_bleu_in_validation_keeps_to_the_limit_of_length(small_corpus, tmp_path):
    """Each translation goes on to its limit, which the training pairs determine."""
    options = """--eval-bleu --eval-bleu-args '{"beam": 1, "unkpen": -100}'"""
    options = f"{MODEL} {PAPER} {LAST_ONLY} --max-update 1 {options} --eval-bleu-print-samples"
    training = train(small_corpus.data, tmp_path, options).ok()
    checkpoint = f"--path={tmp_path}/checkpoint_last.pt"
    options = f"{TASK} {QUIET} --batch-size 20"
    validation = run("fairseq-validate", small_corpus.data, options, checkpoint).ok()
    (here,), (there,) = (
        re.findall("example hypothesis: (.*)", said) for said in (training.out, validation.out)
    )
    assert here == there and len(here.split()) < 50


SMALL = {name.replace("-", "_"): int(n) for name, n in re.findall(r"--(\S+) (\d+)", SIZES)}


def test_hydra(small_corpus, tmp_path):
    options = hydra_options(
        tmp_path,
        small_corpus.data,
        model={"_name": "rnnsearch"} | SMALL,
        optimization={"max_update": 3, "clip_norm": 1.0, "lr": [0.25]},
    )

    def hydra(*more, start=run):
        return start("fairseq-hydra-train", options, *more)

    trained, _, refused = together(
        lambda: hydra(start=run_installed).ok(),
        lambda: train(
            small_corpus.data, tmp_path / "train", f"{MODEL} {PAPER} {LAST_ONLY} --max-update 3"
        ).ok(),
        lambda: hydra("task.data=/no/such/folder", f"checkpoint.save_dir={tmp_path / 'refused'}"),
    )
    assert_equal_folders(tmp_path / "hydra", tmp_path / "train")
    assert [trained.out.count(text) for text in ("| valid on 'valid'", "done training")] == [1, 1]
    assert "/no/such/folder" in refused.error()


ARCHITECTURES = "rnnsearch_30", "rnnsearch_50", "rnnencdec_30", "rnnencdec_50", "rnnsearch_tiny"


@pytest.mark.parametrize("arch", cases(ARCHITECTURES, "rnnencdec_30", "rnnsearch_tiny"))
def test_a_file_and_a_command_line_train_the_same_architecture(arch, small_corpus, tmp_path):
    """With the manual's file; only the paper's sizes are too large for a test."""
    manual = (PACKAGE / "manual" / "train.md").read_text()
    config = yaml.safe_load(re.search(r"```yaml\n(.*?)```", manual, re.S).group(1))
    for name in ("common", "task", "checkpoint"):  # which name places
        del config[name]
    sizes = {} if arch == "rnnsearch_tiny" else SMALL
    config["model"] = config["model"] | {"_name": arch} | sizes
    config["optimization"]["max_update"] = 1
    options = " ".join(f"--{name.replace('_', '-')} {size}" for name, size in sizes.items())
    together(
        lambda: run(
            "fairseq-hydra-train", hydra_options(tmp_path, small_corpus.data, **config)
        ).ok(),
        lambda: train(
            *(small_corpus.data, tmp_path / "train", f"--arch {arch} {options}"),
            f"{PAPER} --batch-size 80 --max-update 1 --no-epoch-checkpoints",
        ).ok(),
    )
    saved = [
        torch.load(tmp_path / folder / "checkpoint_last.pt", weights_only=True)
        for folder in ("hydra", "train")
    ]
    found, expected = (
        {name: state["cfg"][name] for name in ("model", "task", "criterion", "optimizer")}
        for state in saved
    )
    for options in (found, expected):
        del options["task"]["save_dir"]
    assert found == expected
    shapes = [{name: part.shape for name, part in state["model"].items()} for state in saved]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("has_tasks", [True, False])
def test_a_file_s_own_values_win_over_the_preset(has_tasks, small_corpus, tmp_path):
    """Also with a --user-dir of one's own, in which fairseq finds no tasks to scan."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "__init__.py").write_text("import fairseq_rnnsearch\n")
    common = {"user_dir": str(PACKAGE if has_tasks else mine), "cpu": True}
    model = {"_name": "rnnsearch_tiny", "maxout_size": 8}
    task = {"_name": "alignment_heatmap", "data": str(small_corpus.data), "max_train_words": 9}
    groups = {"common": common, "model": model, "task": task}
    options = hydra_options(tmp_path, small_corpus.data, **groups)
    run("fairseq-hydra-train", options, "optimization.max_update=1").ok()
    cfg = torch.load(tmp_path / "hydra" / "checkpoint_last.pt", weights_only=True)["cfg"]
    sizes = cfg["model"]["maxout_size"], cfg["model"]["attention_size"]
    assert (*sizes, cfg["task"]["max_train_words"]) == (8, 128, 9)


def test_trainings_of_one_program_are_judged_each_for_itself(small_corpus, tmp_path):
    """The second one is shorter, and its validation worse than the first one's."""
    options = hydra_options(
        tmp_path,
        small_corpus.data,
        model={"_name": "rnnsearch"} | SMALL,
        optimization={"clip_norm": 1.0, "lr": [0.25]},
        checkpoint={"save_dir": f"{tmp_path}/after-${{optimization.max_update}}"},
    )
    lengths = "optimization.max_update=4,1"
    run("fairseq-hydra-train", "-m", options, f"hydra.sweep.dir={tmp_path}/sweep", lengths).ok()
    assert all((tmp_path / f"after-{n}" / "checkpoint_best.pt").exists() for n in (4, 1))


def test_from_pretrained_names_load(learned):
    with pytest.raises(UserError, match="use fairseq_rnnsearch"):
        RNNSearchModel.from_pretrained(learned.folder)


def test_data_loading_processes_give_the_same_batches_and_end_in_silence(small_corpus, tmp_path):
    options = f"{MODEL} {PAPER} {LAST_ONLY} --max-epoch 6"
    watches = [Watch(tmp_path / str(workers)) for workers in (0, 2)]
    here, elsewhere = together(
        *[
            lambda watch=watch, workers=workers: train(
                small_corpus.data,
                tmp_path / f"model{workers}",
                options,
                f"--num-workers {workers}",
                watch.options,
                **watch.environment,
            ).ok()
            for watch, workers in zip(watches, (0, 2), strict=True)
        ]
    )
    # where there is one core, torch warns of two processes
    warned = re.compile(r".*dataloader\.py:\d+: UserWarning: This DataLoader will create.*\n.*\n")
    assert here.err == warned.sub("", elsewhere.err) == ""
    assert watches[0].batches() == watches[1].batches()
    assert_equal_folders(tmp_path / "model0", tmp_path / "model2")
