"""The command lines of fairseq's programs: help that shows the options of every part, and advice.

fairseq reads a command line twice: first to learn which architecture, task, criterion and optimizer
are meant, and then with their options. argparse shows its help in the first reading, where nobody
knows of them yet. Here each part that was named has its options in a group of its own.
"""

import argparse
import contextlib
import inspect
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import Field, fields
from types import ModuleType, SimpleNamespace
from typing import NoReturn

from fairseq import registry
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from fairseq_rnnsearch.compat.options import option_of
from fairseq_rnnsearch.errors import OneLineParser, UserError

PACKAGE = __name__.partition(".")[0]
OURS = {
    "arch": "rnnsearch_50",
    "task": "alignment_heatmap",
    "criterion": "alignment_heatmap",
    "optimizer": "rnnsearch_adadelta",
}
_HELP = {"-h", "--help"}
_SHORT = {"arch": ("-a",)}
_OF_TRAINING = {"arch", "criterion", "optimizer", "lr_scheduler"}

# An option of each command that those after it have not.
_KNOWN_BY = {
    "fairseq-preprocess": "destdir",
    "fairseq-train": "max_epoch",
    "fairseq-interactive": "buffer_size",
    "fairseq-generate": "beam",
    "fairseq-validate": "valid_subset",
}

# What each of the task's options for pictures needs, by command; in training all but the last
# take effect. None: nothing there reads it.
_DIR, _SHOWN = ("--heatmap-dir",), ("--heatmap-dir", "--heatmap-terminal")
_FILES, _COLUMNS = ("--heatmap-samples", "--heatmap-format"), ("--heatmap-pieces",)
_COLUMNS += ("--heatmap-source-end",)
_READ_BY = {
    "--heatmap-keep": "fairseq-train reads it",
    "--heatmap-terminal": "fairseq-interactive reads it",
}
_NEEDED: dict[str, dict[str, tuple[str, ...] | None]] = {
    "fairseq-train": {"--heatmap-terminal": None},
    "fairseq-generate": dict.fromkeys(_FILES + _COLUMNS, _DIR) | dict.fromkeys(_READ_BY),
    "fairseq-interactive": {
        **dict.fromkeys(_FILES, _DIR),
        **dict.fromkeys(_COLUMNS, _SHOWN),
        "--heatmap-keep": None,
    },
    "fairseq-validate": dict.fromkeys(_DIR + _FILES + _COLUMNS + tuple(_READ_BY)),
}


def with_help_and_advice(argparse: ModuleType) -> SimpleNamespace:
    """Return the module with a parser as fairseq's commands need it."""
    return SimpleNamespace(**{**vars(argparse), "ArgumentParser": CommandParser})


def dataclass_of(kind: str, name: str | None) -> type | None:
    """Return the options of a part: of an "arch", a "task", or a part of fairseq's registries.

    Parts from before fairseq had dataclasses, and names that there are not, have None.
    """
    if kind == "arch":
        return MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY.get(name, name))
    if kind == "task":
        return TASK_DATACLASS_REGISTRY.get(name)
    return registry.REGISTRIES[kind]["dataclass_registry"].get(name)


def own_options(dataclass: type) -> Iterator[Field]:
    """Yield the options that this plugin has added to a part, without those of other parts."""
    ours = {
        name
        for base in dataclass.__mro__
        if base.__module__.partition(".")[0] == PACKAGE
        for name in inspect.get_annotations(base)
    }
    for field in fields(dataclass):
        is_of_another_part = isinstance(field.default, str) and field.default.startswith("${")
        if field.name in ours and not is_of_another_part:
            yield field


class CommandParser(OneLineParser):
    """The parser of a command of fairseq."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **{"formatter_class": _WithDefaults, **options})
        self._command = ""

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse as argparse does, and show the help of all parts that the command line names.

        Raises:
            UserError: when the architecture or the task is missing that cannot be.
        """
        words = list(sys.argv[1:] if args is None else args)
        asks = self.add_help and not _HELP.isdisjoint(words)
        known = [word for word in words if word not in _HELP] if asks else words
        # not OneLineParser's, because the first reading knows few options
        chosen, unknown = argparse.ArgumentParser.parse_known_args(self, known, namespace)
        # however it was started
        self._command = next((name for name, own in _KNOWN_BY.items() if own in chosen), "")
        if asks:
            self._add_groups(chosen, words)
            self.print_help()
            self.exit()
        kind = {"fairseq-train": "arch", "fairseq-validate": "task"}.get(self._command)
        if kind and vars(chosen)[kind] is None:  # fairseq ends with a nameless error
            raise UserError(f"{option_of(kind)} is missing: name one, such as {OURS[kind]}")
        return chosen, unknown

    def parse_args(
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> Namespace:
        """Parse all options.

        Raises:
            UserError: for an option that this command would not heed.
        """
        found = super().parse_args(args, namespace)
        _check_pictures(self._command, sys.argv[1:] if args is None else args)
        return found

    def error(self, message: str) -> NoReturn:
        """Refuse a command line; an option of a part that was not named is told from a typo."""
        first = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        owners = [kind for kind in OURS if first and first[1] in _options_of(kind)]
        if owners and self._command == "fairseq-train":
            raise UserError(f"{first[1]} is an option of --{owners[0]} {OURS[owners[0]]}: add that")
        if owners == ["task"] and self._command != "fairseq-preprocess":
            raise UserError(f"{first[1]} is an option of --task {OURS['task']}: add that")
        super().error(message)

    def _add_groups(self, chosen: Namespace, words: Sequence[str]) -> None:
        """Add the options of each part, this plugin's where the command line names none."""
        self.usage = "%(prog)s DATA --user-dir DIR [OPTION]..."
        self.epilog = (
            "Other architectures, tasks, criteria and optimizers have other options. `python -m "
            f"{PACKAGE} options` lists those of this plugin alone."
        )
        kinds = ["arch", "task", *registry.REGISTRIES]
        if self._command == "fairseq-preprocess":
            self.usage = "%(prog)s --user-dir DIR [OPTION]..."
            self.epilog = (
                f"With --task {OURS['task']} the text is checked first, and --nwordssrc and "
                "--nwordstgt count words alone; this command takes no option of a task."
            )
            kinds = []
        elif self._command != "fairseq-train":
            kinds = [kind for kind in kinds if kind not in _OF_TRAINING]
        typed = {word.partition("=")[0] for word in words}
        for kind in kinds:
            name = vars(chosen)[kind]
            if kind in OURS and typed.isdisjoint({option_of(kind), *_SHORT.get(kind, ())}):
                name = OURS[kind]
            dataclass = dataclass_of(kind, name)
            if dataclass is None:
                continue
            gen_parser_from_dataclass(
                self.add_argument_group(f"{option_of(kind)} {name}"), dataclass()
            )
            if kind == "arch":
                preset = Namespace()
                with contextlib.suppress(AttributeError):  # a preset may ask for other options
                    ARCH_CONFIG_REGISTRY[name](preset)
                self.set_defaults(**vars(preset))


def _options_of(kind: str) -> set[str]:
    dataclass = dataclass_of(kind, OURS[kind])
    return {option_of(field.name) for field in own_options(dataclass)} if dataclass else set()


def _check_pictures(command: str, words: Sequence[str]) -> None:
    """Refuse options for pictures that have no effect, whatever their value.

    Raises:
        UserError: naming the first, and what it needs.
    """
    given = dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("--heatmap-"))
    for option, needed in _NEEDED.get(command, {}).items():
        if option not in given or (needed and not given.keys().isdisjoint(needed)):
            continue
        if needed:
            raise UserError(f"{option} has no effect without {' or '.join(needed)}")
        reader = _READ_BY.get(option, "fairseq-generate draws translations with it")
        raise UserError(f"{option} has no effect in {command}: {reader}")


class _WithDefaults(argparse.HelpFormatter):
    """Help that ends with an option's default, where there is one and the help does not say it."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        if isinstance(default, bool):
            default = "on" if default else "off"
        if default in (None, "", argparse.SUPPRESS) or "default" in text.lower():
            return text
        return f"{text} (default: {str(default).replace('%', '%%')})".lstrip()
