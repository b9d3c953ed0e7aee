"""Our parts with fairseq's own."""

import re

import numpy as np
import pytest
import torch
import yaml
from commands import (
    MODEL,
    PACKAGE,
    PAPER,
    SIZES,
    assert_equal_folders,
    call,
    hydra_options,
    run,
    train,
)
from fairseq import options
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from in_process import generate, interactive
from models import build_model, task_with_data
from omegaconf import OmegaConf

from fairseq_rnnsearch import UserError, load
from fairseq_rnnsearch.models.conversion import to_folder
from fairseq_rnnsearch.runs.options import fill_presets

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
    " --lr-scheduler inverse_sqrt --warmup-updates 2"
    """ --eval-bleu --eval-bleu-args '{"beam": 2, "max_len_a": 0, "max_len_b": 4}'"""
    " --eval-bleu-detok space --eval-bleu-remove-bpe --best-checkpoint-metric bleu"
    " --maximize-best-checkpoint-metric",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXTURES)
def test_trained_resumed_and_translated(name, small_corpus, tmp_path):
    pytest.importorskip("tensorboardX")
    data, folder, options = small_corpus.data, tmp_path / "model", MIXTURES[name]
    logs = f"--log-interval 1 --tensorboard-logdir={tmp_path / 'logs'}"
    first = train(data, folder, options, "--max-epoch 1", logs).ok()
    updates = re.search(r"end of epoch 1 .*\n.* num_updates (\d+)", first.out).group(1)
    second = train(data, folder, options, "--max-epoch 2").ok()
    assert f"@ {updates} updates" in second.out
    assert "end of epoch 2" in second.out
    task = "--task translation" if "--task translation" in options else ""
    translated = generate(data, folder / "checkpoint1.pt", f"--beam 2 {task}")
    if not task:  # fairseq's own loses some
        assert sorted(translated.hypotheses()) == list(range(13))
    if name == "everything else":
        assert re.search(r"valid on 'valid' subset .* \| bleu [\d.]+", first.out)
        assert (folder / "checkpoint_best.pt").exists()
        # TensorBoard has the numbers and a picture
        events = (tmp_path / "logs").rglob("events.*")
        events = {path.parent.name: path.read_bytes() for path in events}
        assert {"train_inner", "train", "valid", "alignments"} <= events.keys()
        assert b"nats_per_sentence" in events["valid"]
        assert b"\x89PNG" in events["alignments"]


def test_bleu_in_validation_keeps_to_the_limit_of_length(small_corpus, tmp_path):
    """The training pairs determine it."""
    bleu = {"eval_bleu": True, "eval_bleu_args": '{"beam": 1}'}
    task = task_with_data(small_corpus, tmp_path, **bleu)
    task.begin_valid_epoch(1, build_model(17, 17))
    search = task.sequence_generator
    assert (search.max_len_a, search.max_len_b) == task.length_limit == (3.0, 10)


# --- models of others -----------------------------------------------------------------------------


def test_a_model_of_ones_own_translates_and_is_not_exported(small_corpus, tmp_path):
    """The model of the manual, in a folder of its own, trained for an update."""
    folder = tmp_path / "own"
    manual = (PACKAGE / "manual" / "extend.md").read_text()
    plugin, program = re.findall(r"```python\n(.*?)```", manual, re.S)
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "__init__.py").write_text(plugin)
    options = f"--user-dir={folder / 'mine'} --arch sharp_256 {SIZES} {PAPER} --max-update 1"
    train(small_corpus.data, folder / "checkpoints", options).ok()
    (folder / "data-bin").symlink_to(small_corpus.data)
    mine, checkpoint = folder / "mine", folder / "checkpoints" / "checkpoint_last.pt"
    (tmp_path / "text").write_text("red house\n")
    translate = "fairseq_rnnsearch.commands.translate", checkpoint, tmp_path / "text"
    said = f"checkpoint {checkpoint}: .*sharp_256, which nothing has registered"
    assert re.match(said, call(*translate).error())
    with pytest.raises(UserError, match=said):
        generate(folder / "data-bin", checkpoint)
    assert run(*translate, "--user-dir", mine).ok().out
    export = "fairseq_rnnsearch.commands.export", checkpoint, "--user-dir", mine
    refused = run(*export, "--out", tmp_path / "folder").error()
    assert "SharpModel" in refused and not (tmp_path / "folder").exists()
    ran = run(
        "python", "-c", f"import sys\nsys.path[:0] = ['']\n{program}", cwd=folder
    )  # in a program of torch's
    assert re.search(r"\d+\.\d+ torch.Size\(\[2, \d+, \d+\]\)\n", ran.out), ran.err


@pytest.mark.slow
def test_fairseqs_lstm_shows_its_attention(small_corpus, barely_trained, tmp_path):
    data, lstm, drawn = small_corpus.data, tmp_path / "checkpoint_last.pt", tmp_path / "drawn"
    options = "--max-update 1 --no-epoch-checkpoints --heatmap-samples 1"
    trained = train(data, tmp_path, f"{LSTM} {ADAM} {OURS} {options}").ok()
    assert re.search(r"valid on 'valid' subset .* attn_entropy", trained.out)
    assert list((tmp_path / "heatmaps").rglob("*.png"))
    generate(data, lstm, f"--max-len-b 5 --heatmap-samples 1 --heatmap-dir {drawn}")
    assert (drawn / "sentence0001.png").exists()
    (tmp_path / "text").write_text("red house\n")
    interactive(data, lstm, tmp_path / "text", "--max-len-b 5 --replace-unk ''")
    weights = load([barely_trained.checkpoint, lstm], data).translate("red house").weights
    assert weights.sum(axis=1) == pytest.approx(np.ones(len(weights)), abs=1e-6)
    with pytest.raises(UserError, match="LSTMModel"):
        to_folder(str(lstm), str(data), tmp_path / "model")


# --- fairseq-hydra-train --------------------------------------------------------------------------

SMALL = {name.replace("-", "_"): int(n) for name, n in re.findall(r"--(\S+) (\d+)", SIZES)}


def test_hydra(small_corpus, barely_trained, tmp_path):
    """With a --user-dir of one's own, in which fairseq finds no tasks to scan.

    Processes that load data give the same batches as none.
    """
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "__init__.py").write_text("import fairseq_rnnsearch\n")
    options = hydra_options(
        tmp_path,
        small_corpus.data,
        common={"user_dir": str(mine), "cpu": True, "no_progress_bar": True},
        dataset={"batch_size": 20, "num_workers": 2},
        model={"_name": "rnnsearch_50"} | SMALL,
        optimization={"max_update": 2, "clip_norm": 1.0, "lr": [0.25]},
    )
    trained = run("fairseq-hydra-train", options).ok()
    assert_equal_folders(tmp_path / "hydra", barely_trained.folder)
    assert [trained.out.count(text) for text in ("| valid on 'valid'", "done training")] == [1, 1]
    assert "Exception" not in trained.err
    state = torch.load(tmp_path / "hydra" / "checkpoint_last.pt", weights_only=True)
    assert state["cfg"]["task"]["max_train_words"] == 50  # the preset's


ARCHITECTURES = "rnnsearch_30", "rnnsearch_50", "rnnencdec_30", "rnnencdec_50", "rnnsearch_tiny"


def in_a_file(**groups):
    """The options of the manual's file, with these instead."""
    manual = (PACKAGE / "manual" / "train.md").read_text()
    config = yaml.safe_load(re.search(r"```yaml\n(.*?)```", manual, re.S).group(1))
    cfg = OmegaConf.merge(OmegaConf.structured(FairseqConfig), config | groups)
    fill_presets(add_defaults, cfg)
    return OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_file_and_a_command_line_name_the_same_architecture(arch):
    found = in_a_file(model={"_name": arch})
    line = f"/path/to/data-bin --save-dir /path/to/checkpoints --task alignment_heatmap {PAPER}"
    parser = options.get_training_parser()
    expected = convert_namespace_to_omegaconf(
        options.parse_args_and_arch(parser, [*line.split(), f"--arch={arch}"])
    )
    expected = OmegaConf.to_container(expected, resolve=True, enum_to_str=True)
    for group in ("model", "task", "criterion", "optimizer"):
        for name, value in found[group].items():
            assert name == "_name" or value == expected[group][name], (group, name)


def test_a_file_s_own_values_win_over_the_preset():
    model = in_a_file(model={"_name": "rnnsearch_tiny", "maxout_size": 8})["model"]
    assert (model["maxout_size"], model["attention_size"]) == (8, 128)


@pytest.mark.slow
def test_trainings_of_one_program_are_judged_each_for_itself(small_corpus, tmp_path):
    """The second one is shorter, and its validation worse than the first one's."""
    given = hydra_options(
        tmp_path,
        small_corpus.data,
        model={"_name": "rnnsearch"} | SMALL,
        optimization={"clip_norm": 1.0, "lr": [0.25]},
        checkpoint={"save_dir": f"{tmp_path}/after-${{optimization.max_update}}"},
    )
    lengths = "optimization.max_update=4,1"
    run("fairseq-hydra-train", "-m", given, f"hydra.sweep.dir={tmp_path}/sweep", lengths).ok()
    assert all((tmp_path / f"after-{n}" / "checkpoint_best.pt").exists() for n in (4, 1))
