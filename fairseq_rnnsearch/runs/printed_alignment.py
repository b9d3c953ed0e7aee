"""Alignments in the forms in which fairseq's commands print them and look words up."""

from collections.abc import Callable

from torch import Tensor

from fairseq_rnnsearch.files import text_lines


def printed_alignment(weights: Tensor, print_alignment: str | None, numbered: bool) -> list:
    """Return what fairseq expects in ``hypo["alignment"]``.

    Args:
        weights: ``(target, source)``, both with their end symbols.
        print_alignment: "soft" for rows of weights, one for each target symbol; otherwise pairs
            (source, target) of every target word and the source word with its largest weight.
        numbered: append its target position to each soft row, ``0.9,0.1-0``, because
            fairseq-interactive can print only pairs.
    """
    if print_alignment == "soft":
        rows = [[f"{p:.6f}" for p in row] for row in weights.tolist()]
        return [(",".join(row), str(i)) for i, row in enumerate(rows)] if numbered else rows
    if weights.size(1) < 2:  # an empty source sentence has no word to point at
        return []
    best = weights[:-1, :-1].argmax(dim=1).tolist()
    return [(source, target) for target, source in enumerate(best)]


def replace_unknown_words(
    replace: Callable, text: str, source: str, alignment: list, dictionary: dict, unknown: str
) -> str:
    """Let fairseq's ``replace_unk`` look positions up in either form.

    Args:
        replace: fairseq's function, whose arguments follow; it takes one source position for each
            target word.
        alignment: of `printed_alignment`.
    """
    return replace(text, source, [_position(one) for one in alignment], dictionary, unknown)


def read_replacements(read: Callable, file: str | None) -> dict | None:
    """Read the dictionary of ``--replace-unk``; without a file's name it is empty.

    Args:
        read: fairseq's function.
        file: the option's value; without one, fairseq looks for a file named "@@ ".
    """
    if file is None:
        return read(None)
    if file in ("", "@@ "):
        return read("")
    lines = (line.split() for line in text_lines(file, "--replace-unk"))
    return {words[0]: words[1] for words in lines if words}


def _position(printed: tuple | list) -> int:
    """Return the source word of a pair, or the one with the largest weight of a soft row."""
    if not isinstance(printed, tuple | list):  # from another task
        return int(printed)
    if isinstance(printed[0], int):
        return printed[0]
    weights = printed[0].split(",") if isinstance(printed, tuple) else printed
    words = [float(weight) for weight in weights[:-1] or weights]
    return words.index(max(words))
