"""`training`: the paper's Table 2, from the logs of fairseq-train."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from fairseq_rnnsearch.evaluation import paper, training_log
from fairseq_rnnsearch.evaluation.command_line import (
    add_command,
    add_list,
    check_names,
    named_paths,
    named_values,
)
from fairseq_rnnsearch.evaluation.tables import Column, Row, Table, fixed, markdown
from fairseq_rnnsearch.evaluation.training_log import Training, read_training
from fairseq_rnnsearch.wording import counted


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to those of the program."""
    parser = add_command(
        commands,
        "training",
        _run,
        "updates, epochs, hours, device and likelihoods of trainings (Table 2)",
        training_log.__doc__,
    )
    add_logs(parser, required=True)
    paper.add_paper(parser)


def _run(options: argparse.Namespace) -> None:
    trainings = read_logs(options)
    theirs = paper.rows_beside(options, list(trainings))
    print(markdown(training_table(trainings, theirs)))
    for remark in training_remarks(trainings):
        print(f"\n{remark}")


def add_logs(parser: argparse.ArgumentParser, required: bool) -> None:
    """Add the options that `read_logs` reads."""
    add_list(
        parser,
        "--log",
        "NAME=FILE",
        "what fairseq-train printed, --log-format simple or json; a training that was interrupted"
        " may have its runs in one file, or in several given in their order",
        required=required,
    )
    add_list(
        parser,
        "--device",
        "NAME=TEXT",
        "what a model was trained on, where the log does not say it well (default: the GPUs that"
        " the log names, else CPU)",
    )


def read_logs(options: argparse.Namespace) -> dict[str, Training]:
    """Read each model's training; the same name again adds a log.

    Raises:
        UserError: the options name a device of no training; and as `read_training`.
    """
    paths: dict[str, list[Path]] = {}
    for text in options.log:
        for name, path in named_paths([text], "--log").items():
            paths.setdefault(name, []).append(path)
    devices = named_values(options.device, "--device")
    check_names(devices, paths, "--device")
    return {name: read_training(logs, devices.get(name)) for name, logs in paths.items()}


def training_table(trainings: Mapping[str, Training], theirs: paper.PaperRows) -> Table:
    """Return the paper's Table 2: how long the models were trained, and what they reached.

    Args:
        trainings: each model's training.
        theirs: the paper's rows.
    """
    columns = [Column("Model", numeric=False)]
    for head in ("Updates", "Epochs", "Hours", "Train NLL", "Dev. NLL", "Device"):
        is_number = head != "Device"
        if theirs.are_shown:
            columns += [Column("ours", head, is_number), Column("paper", head, is_number, "paper")]
        else:
            columns += [Column(head, numeric=is_number)]
    rows = []
    for name, training in trainings.items():
        ours = (
            f"{training.updates:,}",
            fixed(training.epochs, 1),
            fixed(training.hours, 1 if training.hours >= 0.95 else 2),
            fixed(training.train_nats, 1),
            fixed(training.valid_nats, 1),
            training.device,
        )
        if theirs.are_shown:
            pairs = zip(ours, _paper_cells(theirs.beside.get(name)), strict=True)
            ours = tuple(cell for pair in pairs for cell in pair)
        rows.append(Row((name, *ours)))
    for name in theirs.without_counterpart(paper.TRAINING):
        cells = (cell for value in _paper_cells(name) for cell in (None, value))
        rows.append(Row((f"{name} (paper)", *cells), paper=True))
    return Table(tuple(columns), tuple(rows))


def _paper_cells(row: str | None) -> tuple[str | None, ...]:
    theirs = paper.TRAINING.get(row or "")
    if theirs is None:
        return (None,) * 6
    return (
        f"{theirs.updates:,}",
        fixed(theirs.epochs, 1),
        fixed(theirs.hours, 0),
        fixed(theirs.train_nll, 1),
        fixed(theirs.dev_nll, 1),
        theirs.gpu,
    )


def training_remarks(trainings: Mapping[str, Training]) -> list[str]:
    """Say what the table does not show: when the dev. NLL was lowest, interruptions, lost work."""
    remarks = []
    for name, training in trainings.items():
        parts = []
        if training.valid_nats is not None:
            parts.append(f"lowest dev. NLL after {counted(training.valid_update, 'update')}")
            if training.last_valid_nats != training.valid_nats:
                parts.append(f"{training.last_valid_nats:.1f} at the end")
        if training.runs > 1:
            parts.append(f"trained in {training.runs} runs")
        if training.lost_hours >= 0.005:
            parts.append(f"{training.lost_hours:.2f} h of lost work not counted")
        if training.unlogged_updates:
            parts.append(
                f"the log lacks {counted(training.unlogged_updates, 'update')}, and the hours are"
                " without theirs"
            )
        if parts:
            remarks.append(f"{name}: {'; '.join(parts)}.")
    return remarks
