"""What a terminal shows of a command's output."""

import io
import logging
from argparse import Namespace

import pytest
from torch import nn

from fairseq_rnnsearch.runs.programs import checked


def program_on(monkeypatch, main, is_terminal, **environment):
    """What a program of fairseq's prints."""
    screen = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler(screen)])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    checked(main)(Namespace())
    return screen.buffer.getvalue().decode()


def test_text_is_utf_8(monkeypatch):
    shown = program_on(monkeypatch, lambda _: print("H-0\té", flush=True), is_terminal=False)
    assert shown == "H-0\té\n"


@pytest.mark.parametrize(
    ("is_terminal", "whole", "shown"), [(False, "", 3), (True, "", 1), (True, "1", 3)]
)
def test_a_terminal_shows_neither_configurations_nor_models(is_terminal, whole, shown, monkeypatch):
    def program(cfg):
        for message in (cfg, nn.Linear(1, 1), "a line"):
            logging.warning(message)

    printed = program_on(monkeypatch, program, is_terminal, RNNSEARCH_WHOLE_LOG=whole)
    assert len(printed.splitlines()) == shown and "a line" in printed
