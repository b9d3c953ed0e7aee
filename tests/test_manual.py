"""What README.md, the manual and the READMEs of the folders say of the code and of each other."""

import inspect
import re
from dataclasses import fields
from enum import EnumType
from typing import get_args

import pytest
from commands import PACKAGE, ROOT

from fairseq_rnnsearch.errors import option_of
from fairseq_rnnsearch.plugin import adadelta, criterion, model, task_options
from fairseq_rnnsearch.runs.checkpoint import OwnFields

MANUAL = PACKAGE / "manual"
DOCUMENTS = [
    path
    for path in (
        ROOT / "README.md",
        *MANUAL.glob("*.md"),
        *(ROOT / "recipes").rglob("*.md"),
        *ROOT.glob("tests/**/*.md"),
    )
    if "runs" not in path.parts
]


def test_the_table_of_robustness_names_files_that_are_there():
    page = (MANUAL / "operate.md").read_text(encoding="utf-8")
    section = page.partition("\n## Robustness\n")[2].partition("\n## ")[0]
    names = set(re.findall(r"`(test_\w+\.py)`", section))
    assert set() < names <= {path.name for path in (ROOT / "tests").glob("test_*.py")}


PARTS = {
    "--arch rnnsearch_50 and the other presets": model.RNNSearchConfig,
    "--task alignment_heatmap": task_options.AlignmentHeatmapConfig,
    "--criterion alignment_heatmap": criterion.AlignmentHeatmapCriterionConfig,
    "--optimizer rnnsearch_adadelta": adadelta.RNNSearchAdadeltaConfig,
}
DEFAULTS = {"True": "on", "False": "off", "None": ""}


def options_of(part):
    """The options that the plugin adds to a part of fairseq, but for those of another part."""
    ours = [one for one in part.__mro__ if one.__module__.startswith("fairseq_rnnsearch")]
    names = {name for one in ours for name in inspect.get_annotations(one)}
    return [
        one for one in fields(part) if one.name in names and not str(one.default).startswith("${")
    ]


def row_of_option(one):
    kinds = [kind for kind in (one.type, *get_args(one.type)) if isinstance(kind, EnumType)]
    name = option_of(one.name) + "".join(f" {{{','.join(x.value for x in k)}}}" for k in kinds)
    default, help = DEFAULTS.get(str(one.default), one.default), one.metadata["help"]
    return f"| `{name}` | {default} | {help.replace('<', '&lt;').replace('|', '&#124;')} |"


def tables_of_options():
    for title, part in PARTS.items():
        yield from ("", f"| `{title}` | default | what it is |", "|---|---|---|")
        yield from map(row_of_option, options_of(part))


def table_of_fields():
    yield from ("", "| field | in | type | since | why |", "|---|---|---|---|---|")
    for one in fields(OwnFields):
        kind, about = inspect.formatannotation(one.type).removesuffix(" | None"), one.metadata
        yield f"| `{one.name}` | `{about['part']}` | `{kind}` | {about['since']} | {about['why']} |"


LISTS = {"Options": tables_of_options, "What a checkpoint holds": table_of_fields}


def generated():
    """The reference, with its tables as the code has them."""
    page = (MANUAL / "reference.md").read_text(encoding="utf-8")
    for heading, lines in LISTS.items():
        tables = re.search(rf"\n## {heading}\n.*?(\n\|.*?)\n\n## ", page, re.S)[1]
        page = page.replace(tables, "\n".join(lines()))
    return page


def test_the_reference_has_every_option_and_every_field_of_a_checkpoint():
    page = (MANUAL / "reference.md").read_text(encoding="utf-8")
    assert page == generated(), "python tests/test_manual.py writes it"


def _anchors(text):
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target.read_text(encoding="utf-8")), link


if __name__ == "__main__":
    (MANUAL / "reference.md").write_text(generated(), encoding="utf-8")
