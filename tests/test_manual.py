"""What README.md, MANUAL.md and the READMEs of the folders say of the code and of each other."""

import re

import pytest
from commands import PACKAGE, ROOT, run

MANUAL = PACKAGE / "MANUAL.md"
DOCUMENTS = [
    path
    for path in (ROOT / "README.md", *(ROOT / "recipes").rglob("*.md"), *ROOT.glob("tests/**/*.md"))
    if "runs" not in path.parts
] + [MANUAL]


def test_the_table_of_what_it_survives_names_files_that_are_there():
    text = MANUAL.read_text(encoding="utf-8").partition("## What it survives")[2]
    names = set(re.findall(r"`(test_\w+\.py)`", text.partition("\n## ")[0]))
    assert names
    assert names <= {path.name for path in (ROOT / "tests").glob("test_*.py")}


def test_the_manual_has_every_option_with_its_default():
    made = run("fairseq_rnnsearch", "options", "--markdown").ok().out
    assert "| `--decoder-order {" in made
    assert made.strip() in MANUAL.read_text(encoding="utf-8"), "python -m fairseq_rnnsearch options"


def test_the_layout_names_every_part_of_the_package():
    """`test_layout.py` holds the dependencies; here is what the manual shows of them."""
    text = MANUAL.read_text(encoding="utf-8").partition("## The layout of the code")[2]
    shown = set(re.findall(r"^  ([a-z_]+)(?:/|\.py) ", text.partition("## ")[0], re.M))
    parts = {
        path.stem
        for path in PACKAGE.iterdir()
        if not path.name.startswith("_") and (path.is_dir() or path.suffix == ".py")
    }
    assert parts <= shown


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
