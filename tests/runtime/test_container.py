"""A container file is read back whole, and refused when a single byte differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import ConfigError, FormatError
from runtime.plan.container import StringTable, decode_container, encode_container, read_file, string_reader
from runtime.plan.records import PLAN_MAGIC, POOL, TUNED_MAGIC, SectionId


def sample() -> bytes:
    strings = StringTable()
    strings.add("input")
    pools = np.zeros(2, POOL)
    pools["size"] = (640, 64)
    return encode_container(PLAN_MAGIC, {SectionId.POOL: pools, SectionId.STRINGS: strings.section()})


def test_sections_are_read_back_as_written() -> None:
    sections = decode_container(sample(), PLAN_MAGIC, "sample")
    assert sections[SectionId.POOL]["size"].tolist() == [640, 64]
    assert string_reader(sections)(1) == "input"


@pytest.mark.slow
@given(st.integers(0, len(sample()) - 1), st.integers(1, 255))
def test_any_changed_byte_is_refused(position: int, flip: int) -> None:
    damaged = bytearray(sample())
    damaged[position] ^= flip
    with pytest.raises(FormatError, match=r"^sample: "):
        decode_container(bytes(damaged), PLAN_MAGIC, "sample")


@given(st.integers(0, len(sample()) - 1))
def test_any_truncation_is_refused(size: int) -> None:
    with pytest.raises(FormatError, match=r"^sample: "):
        decode_container(sample()[:size], PLAN_MAGIC, "sample")


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(FormatError, match="not a FARMTUNE file"):
        decode_container(sample(), TUNED_MAGIC, "sample")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.plan: cannot be read"):
        read_file(tmp_path / "absent.plan", PLAN_MAGIC)
