"""`training`: the paper's Table 2, from the logs of fairseq-train."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from fairseq_rnnsearch.errors import pluralize
from reporting import paper
from reporting.options import add_list, check_names, named_paths, named_values
from reporting.tables import Column, Row, Table, fixed, markdown
from reporting.training_log import Training, read_training

_MODEL = Column("Model", numeric=False)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_logs(parser, required=True)
    paper.add_paper(parser)


def run(options: argparse.Namespace) -> None:
    """Print updates, epochs, hours, device and likelihoods of trainings (Table 2)."""
    trainings = read_logs(options)
    of_paper = paper.rows_beside(options, list(trainings))
    print(markdown(training_table(trainings, of_paper)))
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


def training_table(trainings: Mapping[str, Training], of_paper: paper.PaperRows) -> Table:
    """Return the paper's Table 2: how long the models were trained, and what they reached.

    Args:
        trainings: each model's training.
        of_paper: the paper's rows.
    """
    rows = []
    for name, training in trainings.items():
        ours = _cells(training, 1 if training.hours >= 0.95 else 2)
        row: Row = {_MODEL: name}
        for head, cell in ours.items():
            if of_paper.are_shown:
                row[Column("ours", head, head != "Device")] = cell
                row[_paper(head)] = None
            else:
                row[Column(head, numeric=head != "Device")] = cell
        rows.append(row | _paper_cells(of_paper.beside.get(name)))
    paper_rows = [
        {_MODEL: f"{name} (paper)", **_paper_cells(name)}
        for name in of_paper.without_counterpart(paper.TRAINING)
    ]
    return Table(rows, paper_rows)


def _cells(
    training: Training | paper.LearningStatistics, decimals_of_hours: int
) -> dict[str, str | None]:
    return {
        "Updates": fixed(training.updates, 0),
        "Epochs": fixed(training.epochs, 1),
        "Hours": fixed(training.hours, decimals_of_hours),
        "Train NLL": fixed(training.train_nats, 1),
        "Dev. NLL": fixed(training.valid_nats, 1),
        "Device": training.device,
    }


def _paper_cells(name: str | None) -> Row:
    """Return what the paper says of one of its models, if it is in its table."""
    if name not in paper.TRAINING:
        return {}
    return {_paper(head): cell for head, cell in _cells(paper.TRAINING[name], 0).items()}


def _paper(head: str) -> Column:
    return Column("paper", head, head != "Device", is_paper=True)


def training_remarks(trainings: Mapping[str, Training]) -> list[str]:
    """Say what the table does not show: when the dev. NLL was lowest, interruptions, lost work."""
    remarks = []
    for name, training in trainings.items():
        parts = []
        if training.valid_nats is not None:
            parts.append(f"lowest dev. NLL after {pluralize(training.valid_update, 'update')}")
            if training.last_valid_nats != training.valid_nats:
                parts.append(f"{training.last_valid_nats:.1f} at the end")
        if training.runs > 1:
            parts.append(f"trained in {training.runs} runs")
        if training.lost_hours >= 0.005:
            parts.append(f"{training.lost_hours:.2f} h of lost work not counted")
        if training.unlogged_updates:
            parts.append(
                f"the log lacks {pluralize(training.unlogged_updates, 'update')}, and the hours are"
                " without theirs"
            )
        if parts:
            remarks.append(f"{name}: {'; '.join(parts)}.")
    return remarks
