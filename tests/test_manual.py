"""What README.md, the manual and the READMEs of the folders say of the code and of each other."""

import re

import pytest
from commands import PACKAGE, ROOT, call

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


LISTS = {"Options": "options", "What a checkpoint holds": "checkpoint"}  # by heading: the command


def generated():
    """The reference, with its tables as the package prints them."""
    page = (MANUAL / "reference.md").read_text(encoding="utf-8")
    for heading, command in LISTS.items():
        before, title, rest = page.partition(f"\n## {heading}\n")
        text, following, after = rest.partition("\n## ")
        lead = text[: text.index("\n|") + 1]
        page = (
            before + title + lead + call("fairseq_rnnsearch", command).ok().out + following + after
        )
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
