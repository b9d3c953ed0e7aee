"""More words than the memory holds: one batch is lost, and not the run."""

import re
import sys
from pathlib import Path

import pytest
import torch
from commands import LAST_ONLY, MODEL, PAPER, ROOT, preprocess, run_process, train, write_text
from models import EOS, PAD, batch_of, padded

from fairseq_rnnsearch.decoding.batches import naming_the_batch, rows_of

ROOM = 1_000_000  # kilobytes of addresses beside those that fairseq itself takes
LONG = 100_000  # words


@pytest.mark.slow
def test_a_batch_that_does_not_fit_is_skipped(tmp_path: Path):
    text = write_text(tmp_path / "text", train=39, valid=5)
    for language, word in (("en", "house"), ("fr", "maison")):
        with (text / f"train.{language}").open("a") as file:
            file.write(" ".join([word] * LONG) + "\n")
    preprocess(text, tmp_path / "data").ok()
    options = f"{MODEL} {PAPER} {LAST_ONLY} --max-train-words 0"
    options += " --max-epoch 2 --log-format simple --log-interval 1"
    plain = train(tmp_path / "data", tmp_path / "out", "--help")  # how it is called
    command = plain.command.replace(" --help", f" {options}")
    # kilobytes that are taken before anything is read: gigabytes where torch is for GPUs
    program = "import fairseq_cli.train; print(open('/proc/self/status').read())"
    status = run_process([sys.executable, "-c", program], check=True).stdout
    limit = int(re.search(r"VmSize:\s*(\d+)", status)[1]) + ROOM
    limited = f"ulimit -v {limit} && OMP_NUM_THREADS=1 exec {command}"
    ran = run_process(["bash", "-c", limited], cwd=ROOT, timeout=600)
    log = ran.stdout + ran.stderr
    assert ran.returncode == 0, log[-3000:]
    skipped = re.findall(r"exception: out of memory in a batch of 20 sentences .*", log)
    assert len(skipped) == 2 and all(f"longest of {LONG + 1} source" in line for line in skipped)
    assert re.search(r"\| epoch 002 \|.* num_updates 2 ", log)  # the other batch of each epoch
    assert (tmp_path / "out" / "checkpoint_last.pt").exists()


def test_the_batch_is_named():
    sample = batch_of([[4, 5, EOS], [6, EOS]], [[4, EOS], [5, 6, 7, EOS]])
    sample["id"] = torch.tensor([3, 170])
    with pytest.raises(RuntimeError, match="out of memory") as caught, naming_the_batch(sample):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes")
    assert str(caught.value).startswith(
        "out of memory in a batch of 2 sentences (3, 170), the longest of 3 source and 4 target "
        "tokens, end symbols included; make it smaller with --batch-size (in fairseq's commands "
        "also with --max-tokens, and in training with --max-train-words)"
    )
    with pytest.raises(ValueError, match="another"), naming_the_batch(sample):
        raise ValueError("another")


@pytest.mark.parametrize("left", [False, True])
def test_rows_of_a_batch(left):
    sources, targets = [[4, 5, 6, EOS], [8, 9, EOS], [EOS]], [[4, EOS], [5, 6, 7, EOS], [4, EOS]]
    sample = batch_of(sources, targets, left) | {"id": torch.tensor([3, 17, 170])}
    part = rows_of(sample, slice(1, 3), PAD)
    assert (part["id"].tolist(), part["nsentences"], part["ntokens"]) == ([17, 170], 2, 6)
    assert part["net_input"]["src_tokens"].tolist() == padded(sources, left)[1:3].tolist()
    assert part["net_input"]["src_lengths"].tolist() == [3, 1]
