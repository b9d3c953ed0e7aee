"""The options that the plugin adds to fairseq's commands, from the dataclasses that fairseq reads.

``python -m fairseq_rnnsearch options`` prints them as the tables of the manual.
"""

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import get_args

from fairseq_rnnsearch.errors import option_of

PACKAGE = __name__.partition(".")[0]


def parts() -> dict[str, type]:
    """Return each part's dataclass, by the part's name on the command line."""
    import fairseq  # noqa: F401  registers the parts

    from fairseq_rnnsearch.plugin.adadelta import RNNSearchAdadeltaConfig
    from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterionConfig
    from fairseq_rnnsearch.plugin.model import RNNSearchConfig
    from fairseq_rnnsearch.plugin.task_options import AlignmentHeatmapConfig

    return {
        "--arch rnnsearch_50 and the other presets": RNNSearchConfig,
        "--task alignment_heatmap": AlignmentHeatmapConfig,
        "--criterion alignment_heatmap": AlignmentHeatmapCriterionConfig,
        "--optimizer rnnsearch_adadelta": RNNSearchAdadeltaConfig,
    }


def own_options(dataclass: type) -> Iterator[Field]:
    """Yield the options that this plugin adds to a part, without those that it refers to."""
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


def table() -> str:
    """Return a table of Markdown for each part."""
    lines = []
    for title, dataclass in parts().items():
        lines += ["", f"| `{title}` | default | what it is |", "|---|---|---|"]
        for field in own_options(dataclass):
            help = field.metadata["help"].replace("<", "&lt;").replace("|", "&#124;")
            lines.append(f"| `{_written(field)}` | {_default(field)} | {help} |")
    return "\n".join(lines[1:])


def _written(field: Field) -> str:
    values = _values(field.type)
    return option_of(field.name) + f" {{{','.join(values)}}}" * bool(values)


def _default(field: Field) -> str:
    default = field.default
    if isinstance(default, bool):
        return "on" if default else "off"
    return "" if default in (None, MISSING) else str(default)


def _values(kind: type) -> list[str]:
    """Return the values of an option, if it is an enumeration."""
    for one in (kind, *get_args(kind)):
        if isinstance(one, type) and issubclass(one, Enum):
            return [member.value for member in one]
    return []
