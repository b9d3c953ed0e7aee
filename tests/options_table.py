"""MANUAL's tables: options, from the dataclasses that fairseq reads, and what is replaced.

python tests/options_table.py            # prints them
python tests/options_table.py --write    # puts them into fairseq_rnnsearch/MANUAL.md
"""

import sys
from argparse import Namespace
from dataclasses import MISSING
from enum import Enum
from typing import get_args

from commands import PACKAGE

MANUAL = PACKAGE / "MANUAL.md"
BEGIN = "<!-- {}: made by tests/options_table.py --write -->\n"
END = "<!-- end of {} -->\n"


def tables() -> dict[str, str]:
    """Return what stands between the marks of each name in the manual."""
    return {"options": options(), "mends": mends()}


def mends() -> str:
    """Return the table of what is replaced while fairseq's commands run."""
    from fairseq_rnnsearch.compat.mends import MENDS

    lines = ["| attribute | what happens without its replacement |", "|---|---|"]
    lines += [f"| `{m.owner.replace(':', '.')}.{m.name}` | {m.without} |" for m in MENDS]
    return "\n".join(lines) + "\n"


def options() -> str:
    """Return a table for each part of the plugin, with the options that the plugin has added."""
    from fairseq import utils

    from fairseq_rnnsearch.compat.command_lines import OURS, dataclass_of

    utils.import_user_module(Namespace(user_dir=str(PACKAGE)))
    return "\n".join(
        _table(
            f"`--{kind} {name}`" + " and the other presets" * (kind == "arch"),
            dataclass_of(kind, name),
        )
        for kind, name in OURS.items()
    )


def _table(title: str, dataclass: type) -> str:
    from fairseq_rnnsearch.compat.command_lines import option_of, own_options

    lines = [f"| {title} | default | what it is |", "|---|---|---|"]
    for field in own_options(dataclass):
        default = None if field.default is MISSING else field.default
        values = _values(field.type)
        option = option_of(field.name) + f" {{{','.join(values)}}}" * bool(values)
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


def in_manual(name: str) -> str:
    """Return the tables of a name as the manual has them."""
    text = MANUAL.read_text(encoding="utf-8")
    return text.partition(BEGIN.format(name))[2].partition(END.format(name))[0]


def main() -> None:
    made = tables()
    if "--write" not in sys.argv:
        print("".join(made.values()))
        return
    text = MANUAL.read_text(encoding="utf-8")
    for name, table in made.items():
        before, begin, rest = text.partition(BEGIN.format(name))
        after = rest.partition(END.format(name))[2]
        text = before + begin + table + END.format(name) + after
    MANUAL.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
