"""MANUAL's tables of options, made from the dataclasses that fairseq reads them with.

python tests/options_table.py            # prints them
python tests/options_table.py --write    # puts them into fairseq_rnnsearch/MANUAL.md
"""

import inspect
import sys
from argparse import Namespace
from dataclasses import MISSING, fields
from enum import Enum
from typing import get_args

from commands import PACKAGE

MANUAL = PACKAGE / "MANUAL.md"
BEGIN = "<!-- options: made by tests/options_table.py --write -->\n"
END = "<!-- end of options -->\n"


def tables() -> str:
    """Return a table for each part of the plugin, with the options that the plugin has added."""
    from fairseq import registry, utils
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    utils.import_user_module(Namespace(user_dir=str(PACKAGE)))
    criteria, optimizers = (
        registry.REGISTRIES[kind]["dataclass_registry"] for kind in ("criterion", "optimizer")
    )
    parts = {
        "`--arch rnnsearch_50` and the other presets": MODEL_DATACLASS_REGISTRY[
            ARCH_MODEL_NAME_REGISTRY["rnnsearch_50"]
        ],
        "`--task alignment_heatmap`": TASK_DATACLASS_REGISTRY["alignment_heatmap"],
        "`--criterion alignment_heatmap`": criteria["alignment_heatmap"],
        "`--optimizer rnnsearch_adadelta`": optimizers["rnnsearch_adadelta"],
    }
    return "\n".join(_table(title, dataclass) for title, dataclass in parts.items())


def _table(title: str, dataclass: type) -> str:
    ours = {
        name
        for base in dataclass.__mro__
        if base.__module__.startswith(PACKAGE.name)
        for name in inspect.get_annotations(base)
    }
    lines = [f"| {title} | default | what it is |", "|---|---|---|"]
    for field in fields(dataclass):
        default = None if field.default is MISSING else field.default
        is_of_another_part = isinstance(default, str) and default.startswith("${")
        if field.name not in ours or is_of_another_part:
            continue
        values = _values(field.type)
        option = "--" + field.name.replace("_", "-") + f" {{{','.join(values)}}}" * bool(values)
        if isinstance(default, bool):
            default = "on" if default else "off"
        shown = "" if default is None else default
        lines.append(f"| `{option}` | {shown} | {field.metadata['help'].replace('<', '&lt;')} |")
    return "\n".join(lines) + "\n"


def _values(kind: type) -> list[str]:
    """Return the values that an option may have, where fairseq has a list of them."""
    for one in (kind, *get_args(kind)):
        if isinstance(one, type) and issubclass(one, Enum):
            return [member.value for member in one]
    return []


def in_manual() -> str:
    """Return the tables as the manual has them."""
    return MANUAL.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    made = tables()
    if "--write" not in sys.argv:
        print(made)
        return
    before, begin, rest = MANUAL.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    MANUAL.write_text(before + begin + made + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
