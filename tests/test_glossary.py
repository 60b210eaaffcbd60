"""The glossary names modules that exist, and each term once and in order, so that a newcomer finds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
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
