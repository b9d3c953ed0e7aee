"""Help that shows every option, typos that are told their neighbours, options without an effect."""

import os
import re
import subprocess
import sys

import pytest
from commands import run
from launchpad import ROOT
from options_table import in_manual

PLUGIN = "--user-dir fairseq_rnnsearch"
TASK = f"{PLUGIN} --task alignment_heatmap"
TITLE = re.compile(r"\| `--(\S+) (\S+)`")


def options_of_manual():
    """The options of each part by name, with their defaults, as the manual's tables have them."""
    parts = {}
    for table in in_manual("options").strip().split("\n\n"):
        title, _, *rows = table.splitlines()
        cells = [[cell.strip(" `") for cell in row.split("|")[1:3]] for row in rows]
        parts[TITLE.match(title)[1]] = {name.split()[0]: default for name, default in cells}
    return parts


def groups(text):
    """What a command's help says of each option, by the titles of its groups."""
    parts = re.split(r"^(\S.*):\n", text, flags=re.M)
    return {
        title: {
            words[0].strip(","): " ".join(words[1:])
            for said in re.split(r"^  (?=-)", part, flags=re.M)[1:]
            if (words := said.split())
        }
        for title, part in zip(parts[1::2], parts[2::2], strict=True)
    }


HELPS = {
    "train": ["arch", "task", "criterion", "optimizer"],
    "generate": ["task"],
    "interactive": ["task"],
    "validate": ["task"],
    "preprocess": [],
}


@pytest.mark.parametrize("command", HELPS)
def test_help_shows_the_options_of_every_part_with_their_defaults(command):
    shown = groups(run(f"fairseq-{command}", PLUGIN, "--help").ok().out)
    ours = {title.split()[0].strip("-"): shown[title] for title in shown if "--" in title}
    for part, options in options_of_manual().items():
        assert (part in ours) == (part in HELPS[command])
        for option, default in options.items() if part in ours else ():
            said = ours[part][option]
            assert said.endswith(f"(default: {default})") or not default, said


def test_help_shows_the_parts_that_are_named():
    """The presets' own sizes, and options of fairseq's parts."""
    named = "--arch rnnsearch_tiny --optimizer adam --criterion label_smoothed_cross_entropy"
    shown = groups(run("fairseq-train", TASK, named, "-h").ok().out)
    size = shown["--arch rnnsearch_tiny"]["--encoder-hidden-size"]
    assert size.endswith("units n of each encoder direction (paper: 1000) (default: 128)")
    assert "--adam-betas" in shown["--optimizer adam"]
    assert "--ignore-prefix-size" in shown["--criterion label_smoothed_cross_entropy"]


TRAIN = f"fairseq-train data {TASK} --arch rnnsearch_tiny"
MISTYPED = {
    f"fairseq-train data {TASK} --arch rnnserch_50": "'rnnserch_50'; did you mean rnnsearch_50",
    f"fairseq-train data {PLUGIN} --task aligment_heatmap": "did you mean alignment_heatmap?",
    f"{TRAIN} --criterion alignment-heatmap": "did you mean alignment_heatmap?",
    f"{TRAIN} --optimizer rnnsearch_adadleta": "did you mean rnnsearch_adadelta?",
    f"{TRAIN} --heatmap-dri=x": "--heatmap-dri=x; did you mean --heatmap-dir",
    f"{TRAIN} --unit lsmt": "'lsmt'; did you mean lstm?",
    f"{TRAIN.replace('tiny', 'tny')} --help": "did you mean rnnsearch_tiny",
    f"fairseq-generate data {TASK} --bema 3": "did you mean --beam",
    f"fairseq-preprocess {TASK} --trainperf x": "did you mean --trainpref?",
    # a right option in the wrong place
    f"fairseq-train data {PLUGIN} --arch rnnsearch_tiny --heatmap-dir=x": (
        "--heatmap-dir is an option of --task alignment_heatmap: add that"
    ),
    f"{TRAIN} --cost-scale sum": "--cost-scale is an option of --criterion alignment_heatmap",
    f"fairseq-generate data {PLUGIN} --forbid-unk": "--forbid-unk is an option of --task",
    f"fairseq-train data {TASK}": "--arch is missing: name one, such as rnnsearch_50",
    f"fairseq-validate data {PLUGIN}": "--task is missing",
    # options without an effect
    f"{TRAIN} --heatmap-terminal": "--heatmap-terminal has no effect in fairseq-train",
    f"fairseq-generate data {TASK} --heatmap-format png": (
        "--heatmap-format has no effect without --heatmap-dir"
    ),
    f"fairseq-generate data {TASK} --heatmap-samples=3": "--heatmap-samples has no effect without",
    f"fairseq-generate data {TASK} --heatmap-terminal": "fairseq-interactive reads it",
    f"fairseq-interactive data {TASK} --heatmap-keep 3": "fairseq-train reads it",
    f"fairseq-interactive data {TASK} --heatmap-pieces keep": (
        "has no effect without --heatmap-dir or --heatmap-terminal"
    ),
    f"fairseq-validate data {TASK} --heatmap-dir=x": "--heatmap-dir has no effect",
    # our own commands
    "fairseq_rnnsearch optoins": "did you mean options?",
    "fairseq_rnnsearch.evaluation raport": "did you mean report?",
    "fairseq_rnnsearch.evaluation aer --gold x --hypothesis y --revers z": "mean --reverse?",
    "fairseq_rnnsearch.groundhog improt": "did you mean import?",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_one_line_says_what_was_meant(line):
    command, *words = line.split()
    assert MISTYPED[line] in run(command, *words).error()


def test_what_is_like_nothing_has_no_neighbour():
    message = run("fairseq-train", "data", TASK, "--arch rnnsearch_tiny --foo").error()
    assert message.startswith("unrecognized arguments: --foo (")


def test_options_of_pictures_are_taken_where_they_have_an_effect():
    """What is missing is found after them."""
    told = "--heatmap-terminal --heatmap-pieces keep --heatmap-source-end drop"
    message = run("fairseq-interactive", "data", TASK, told, "--path nosuch").error()
    assert message.startswith("no data folder 'data'")


@pytest.mark.parametrize(
    "code", ["__main__.main(['options'])", "__main__.main()", "__main__.print_path()"]
)
def test_a_program_ends_in_silence_when_nobody_reads_its_output(code):
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-c", f"from fairseq_rnnsearch import __main__; {code}"]
    ended = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    os.close(theirs)
    assert (ended.returncode, ended.stderr) == (141, b"")
