"""File names cannot leave their folder, and differ where the names differ."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.report.names import Names, slug
from tests.farm.report.nights import HOSTILE


def test_plain_names_stay() -> None:
    assert slug("pixel-7_a") == "pixel-7_a"


def test_hostile_names_are_harmless() -> None:
    found = [slug(name) for name in HOSTILE]
    assert all(re.fullmatch(r"[a-z0-9_-]{1,80}", name) for name in found)
    assert len(set(found)) == len(HOSTILE)


def test_names_that_differ_in_case_alone_differ_on_any_disk() -> None:
    names = Names()
    assert len({names.of("Pixel").lower(), names.of("pixel").lower(), names.of("PIXEL").lower()}) == 3


def test_a_unit_that_is_called_like_another_ones_file() -> None:
    names = Names()
    taken = names.of("A b")
    assert names.of(taken) != taken
    assert names.of("A b") == taken


@pytest.mark.slow
@given(st.lists(st.text(st.characters()), unique=True, max_size=20))
def test_names_never_collide(texts: list[str]) -> None:
    names = Names()
    found = [names.of(text) for text in texts]
    assert len(set(found)) == len(texts)
    assert all(re.fullmatch(r"[a-z0-9_-]+", name) for name in found)


def test_parts_are_kept_apart() -> None:
    assert slug("a", "b-c") != slug("a-b", "c")
