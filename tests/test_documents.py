"""What the documents name is there: sources that were moved or renamed are followed in the text."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
SOURCE = re.compile(r"[a-z_0-9/.]*[a-z_0-9]\.(?:py|cl|[ch])\b")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def tracked_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return listed.stdout.splitlines()


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if path.name != "CHANGELOG.md"], ids=lambda path: path.name
)
def test_every_source_that_a_document_names_exists(document: Path) -> None:
    """By its path from the top, or by the last parts of it."""
    files = tracked_files()
    named = {name for span in re.findall(r"`([^`\n]+)`", document.read_text()) for name in SOURCE.findall(span)}
    assert not {name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    assert not {link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()}


TEXT = (ROOT / "docs/glossary.md").read_text()
GROUPS = {group.splitlines()[0]: group for group in TEXT.split("\n## ")[1:]}
ENTRY = re.compile(r"^- \*\*(.+?)\*\*: (.+)$", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([a-z_]+/[a-z_./0-9]+)`", TEXT))))
def test_every_module_that_the_glossary_names_exists(path: str) -> None:
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("group", GROUPS)
def test_terms_are_in_alphabetical_order_and_each_names_its_module(group: str) -> None:
    entries = ENTRY.findall(GROUPS[group])
    terms = [term.lower() for term, _ in entries]
    assert terms and terms == sorted(terms)
    assert len(entries) == GROUPS[group].count("\n- "), "an entry of another form"
    assert all(re.search(r"\(`[^`]+/[^`]+`.*\)\.$", meaning) for _, meaning in entries)


def test_no_term_stands_twice() -> None:
    terms = [term for term, _ in ENTRY.findall(TEXT)]
    assert len(terms) == len(set(terms))
