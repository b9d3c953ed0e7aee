"""What README.md, the manual and the READMEs of the folders say of the code and of each other."""

import re

import pytest
from commands import PACKAGE, ROOT, run

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


def section(page, heading):
    text = (MANUAL / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    assert text, f"{page} has no heading {heading!r}"
    return text.partition("\n## ")[0]


def test_the_table_of_robustness_names_files_that_are_there():
    names = set(re.findall(r"`(test_\w+\.py)`", section("operate.md", "Robustness")))
    assert names
    assert names <= {path.name for path in (ROOT / "tests").glob("test_*.py")}


def test_the_manual_has_every_option_with_its_default():
    made = run("fairseq_rnnsearch", "options", "--markdown").ok().out
    assert "| `--decoder-order {" in made
    shown = section("reference.md", "Options")
    assert made.strip() in shown, "python -m fairseq_rnnsearch options --markdown"


def test_the_manual_has_every_field_of_a_checkpoint():
    made = run("fairseq_rnnsearch", "checkpoint").ok().out
    assert "| `patience` | `extra_state` |" in made
    shown = section("reference.md", "What a checkpoint holds")
    assert made.strip() in shown, "python -m fairseq_rnnsearch checkpoint"


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
