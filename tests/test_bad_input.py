"""Odd text has a result that is defined; checkpoints that do not belong are refused.

What is refused in one line, and nothing more, is in the tables of ``test_refusals``.
"""

import shutil

import pytest
from commands import (
    LAST_ONLY,
    MODEL,
    PAPER,
    TASK,
    RunsACommand,
    generate,
    interactive,
    preprocess,
    run,
    together,
    train,
    write_text,
)

pytest_plugins = ["trained"]

TRAIN = f"{MODEL} {PAPER} {LAST_ONLY} --max-update 2"


# --- text -------------------------------------------------------------------------------------


def test_empty_lines_are_sentences_without_words(tmp_path):
    text = write_text(tmp_path / "text", train=30, valid=5, test=5)
    for split in ("train", "valid", "test"):
        for language, line in (("en", 1), ("fr", 1), ("en", 2), ("fr", 3)):
            path = text / f"{split}.{language}"
            lines = path.read_text(encoding="utf-8").splitlines()
            changed = "\n".join([*lines[:line], "", *lines[line + 1 :], ""])
            path.write_text(changed, encoding="utf-8")
    preprocess(text, tmp_path / "data").ok()
    train(tmp_path / "data", tmp_path / "model", TRAIN).ok()
    checkpoint = tmp_path / "model" / "checkpoint_last.pt"
    options = "--max-len-a 0 --max-len-b 3 --print-alignment hard"
    translated, scored = together(
        lambda: generate(tmp_path / "data", checkpoint, options, "--beam 2").ok(),
        lambda: generate(tmp_path / "data", checkpoint, options, "--score-reference").ok(),
    )
    assert sorted(translated.hypotheses()) == list(range(5))
    assert [scored.hypotheses()[i] == [""] for i in range(5)] == [False, True, False, True, False]
    assert translated.lines("A")[1] == [""]  # no word to point at


def test_preprocessing_of_text_that_is_refused_can_be_given_again(tmp_path):
    """Nothing of the refused command is left that would be in the way."""
    text = write_text(tmp_path / "text", train=5, valid=5)
    with (text / "valid.fr").open("a") as file:
        file.write("maison\n")
    command = (
        *("fairseq-preprocess", TASK, "-s en -t fr", f"--destdir={tmp_path / 'data'}"),
        *(f"--trainpref={text / 'train'}", f"--validpref={text / 'valid'}"),
    )
    assert "valid.en has 5 lines but" in run(*command).error()
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"preprocess.log"}
    write_text(text, valid=5)
    run(*command).ok()


@pytest.mark.parametrize("options", ["--padding-factor 16", "--dataset-impl lazy"])
def test_preprocessing_for_another_task_has_all_of_fairseq_s_options(options, tmp_path):
    text = write_text(tmp_path / "text", train=5)
    command = "fairseq-preprocess --user-dir fairseq_rnnsearch --task translation -s en -t fr"
    run(*command.split(), options, f"--destdir={tmp_path}/d", f"--trainpref={text}/train").ok()


def test_preprocessing_of_one_side_without_a_language(tmp_path):
    """As for a language model; text that is refused leaves no dictionary in the way."""
    text, data = tmp_path / "text", tmp_path / "data"
    command = "fairseq-preprocess --user-dir fairseq_rnnsearch --task language_modeling"
    options = *command.split(), "--only-source", f"--trainpref={text}", f"--destdir={data}"
    text.write_bytes(b"a\rb\n")
    assert str(text) in run(*options).error()
    assert {path.name for path in data.iterdir()} == {"preprocess.log"}
    text.write_bytes(b"a b\n")
    run(*options).ok()
    assert {"dict.txt", "train.bin", "train.idx"} <= {path.name for path in data.iterdir()}


# --- checkpoints ------------------------------------------------------------------------------


def every_command(data, checkpoint):
    """Run the commands that open a checkpoint, each with this one, and return how they ended."""
    folder = checkpoint.parent
    validation = "--user-dir fairseq_rnnsearch --task alignment_heatmap --batch-size 8 --cpu"
    return together(
        lambda: train(data, folder, TRAIN, f"--restore-file={checkpoint}"),
        lambda: train(data, folder / "new", TRAIN, f"--finetune-from-model={checkpoint}"),
        lambda: generate(data, checkpoint),
        lambda: interactive(data, checkpoint, stdin="red house\n"),
        lambda: run("fairseq-validate", data, validation, f"--path={checkpoint}"),
    )


def test_a_checkpoint_that_runs_code_is_refused(barely_trained, tmp_path):
    import torch

    checkpoint, trace = tmp_path / "strange.pt", tmp_path / "trace"
    state = torch.load(barely_trained.checkpoint, weights_only=True)
    torch.save(state | {"extra": RunsACommand(trace)}, checkpoint)
    for finished in every_command(barely_trained.corpus.data, checkpoint):
        message = finished.error()
        assert str(checkpoint) in message and "posix.system" in message
    assert not trace.exists()
    torch.load(checkpoint, weights_only=False)
    assert trace.exists()  # it would have


def test_dictionaries_that_do_not_fit_the_checkpoint(barely_trained, tmp_path):
    text = write_text(tmp_path / "text", train=30, valid=5, test=5)
    preprocess(text, tmp_path / "data", "--nwordssrc 9").ok()
    checkpoint = shutil.copy(barely_trained.checkpoint, tmp_path / "other.pt")
    for finished in every_command(tmp_path / "data", checkpoint):
        message = finished.error()
        assert "source dictionary has 13 symbols" in message and "trained with 17" in message
    assert [path.name for path in tmp_path.rglob("*.pt")] == ["other.pt"]
