"""Tuned-parameter and compiled-kernel files: what is written is read back, damage is refused, merging chooses."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import FormatError
from runtime.kernels.source import all_sources_hash
from runtime.plan.artifacts import (
    Fingerprint,
    KernelSet,
    TunedEntry,
    TunedSet,
    decode_artifact,
    decode_kernels,
    decode_tuned,
    encode_kernels,
    encode_tuned,
    fingerprint_of,
    merge_kernels,
    merge_tuned,
)
from runtime.plan.container import encode_container
from runtime.plan.records import BINARY, KERNELS_MAGIC, SET, TUNED, TUNED_MAGIC, SectionId
from runtime.target import Target

PHONE = Fingerprint("sdm845", "Adreno 630", "v1", "OpenCL 2.0", "adreno-6xx", "abc", "0.1.0")
BOARD = Fingerprint("rk3399", "Mali-T860", "v7", "OpenCL 1.2", "mali-midgard", "abc", "0.1.0")


def entry(key: str = "conv|1", tuned_ns: int = 50, **changes: object) -> TunedEntry:
    plain = TunedEntry(key, "conv", "-DBLOCK=8", 8, 2, (64, 16, 1), (8, 4, 1), 100, tuned_ns)
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


ONE = TunedSet(PHONE, "MI 8", (entry(), entry("pool|2", kernel="pool", options="", block=0, local_size=(0, 0, 0))))
TWO = TunedSet(BOARD, "NanoPi", (entry("conv|1", 70),))
COMPILED = KernelSet(PHONE, "MI 8", {"h|-DA=1": b"binary one", "h|-DA=2": b"", "k|": bytes(range(256))})

text = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=12)
numbers = st.integers(0, 2**32 - 1)
sizes = st.tuples(numbers, numbers, numbers)
long_numbers = st.integers(0, 2**64 - 1)
fingerprints = st.builds(Fingerprint, *[text] * 7)
entries = st.builds(TunedEntry, text, text, text, numbers, numbers, sizes, sizes, long_numbers, long_numbers)
tuned_sets = st.lists(st.builds(TunedSet, fingerprints, text, st.lists(entries, max_size=3).map(tuple)), max_size=3)
kernel_sets = st.lists(
    st.builds(KernelSet, fingerprints, text, st.dictionaries(text, st.binary(max_size=40), max_size=3)), max_size=3
)


@pytest.mark.slow
@given(tuned_sets)
def test_tuned_sets_come_back(sets: list[TunedSet]) -> None:
    assert decode_tuned(encode_tuned(sets), "file") == sets


@pytest.mark.slow
@given(kernel_sets)
def test_kernel_sets_come_back(sets: list[KernelSet]) -> None:
    assert decode_kernels(encode_kernels(sets), "file") == sets


@pytest.mark.slow
@given(st.data())
def test_a_changed_byte_is_refused(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([encode_tuned([ONE, TWO]), encode_kernels([COMPILED])])))
    index = data.draw(st.integers(0, len(content) - 1))
    content[index] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FormatError, match=r"^build/a\.bin: "):
        decode_artifact(bytes(content), "build/a.bin")


@pytest.mark.parametrize("length", [0, 5, 40, 200])
def test_truncated_files_are_refused(length: int) -> None:
    with pytest.raises(FormatError, match=r"^a\.bin: "):
        decode_artifact(encode_tuned([ONE])[:length], "a.bin")


@pytest.mark.parametrize(
    ("magic", "section", "dtype", "changes"),
    [
        (TUNED_MAGIC, SectionId.TUNED, TUNED, {"entry_count": 2}),
        (TUNED_MAGIC, SectionId.TUNED, TUNED, {"first_entry": 7}),
        (TUNED_MAGIC, SectionId.TUNED, TUNED, {"gpu": 9999}),
        (KERNELS_MAGIC, SectionId.BINARY, BINARY, {"entry_count": 1}),
        (KERNELS_MAGIC, SectionId.BINARY, BINARY, {"soc": 50}),
    ],
)
def test_inconsistent_records_with_a_good_checksum_are_refused(
    magic: bytes, section: SectionId, dtype: np.dtype, changes: dict[str, int]
) -> None:
    headers, rows = np.zeros(1, SET), np.zeros(1, dtype)
    headers["entry_count"] = 1
    if section == SectionId.BINARY:
        rows["offset"] = 10**12
    for name, value in changes.items():
        headers[name] = value
    sections = {SectionId.SET: headers, section: rows, SectionId.STRINGS: np.zeros(1, np.uint8)}
    if section == SectionId.BINARY:
        sections[SectionId.BLOB] = np.zeros(4, np.uint8)
    with pytest.raises(FormatError, match="inconsistent"):
        decode_artifact(encode_container(magic, sections), "a.bin")


def test_missing_section_is_refused() -> None:
    with pytest.raises(FormatError, match="inconsistent"):
        decode_tuned(encode_container(TUNED_MAGIC, {SectionId.SET: np.zeros(0, SET)}), "a.bin")


def test_fingerprint_names_device_driver_and_sources() -> None:
    target = Target(soc="s", abi="a", gpu="g", driver="d", opencl_version="o", gpu_family="f")
    found = fingerprint_of(target)
    assert (found.soc, found.gpu, found.driver, found.opencl, found.gpu_family) == ("s", "g", "d", "o", "f")
    assert found.source_hash == all_sources_hash()


def test_digest_changes_with_the_driver_and_not_with_the_sources() -> None:
    assert dataclasses.replace(PHONE, driver="v2").digest != PHONE.digest
    assert dataclasses.replace(PHONE, source_hash="other").digest == PHONE.digest


def test_merge_keeps_sets_of_different_fingerprints() -> None:
    merged, choices = merge_tuned([ONE, TWO])
    assert merged == [ONE, TWO]
    assert not choices


@pytest.mark.parametrize(("second_ns", "kept_ns", "winner"), [(40, 40, "MI 8b"), (60, 50, "MI 8"), (50, 50, "MI 8b")])
def test_faster_entry_wins_and_of_equals_the_later(second_ns: int, kept_ns: int, winner: str) -> None:
    second = TunedSet(PHONE, "MI 8b", (entry(tuned_ns=second_ns, default_ns=99), entry("new|3")))
    (merged,), (choice,) = merge_tuned([ONE, second])
    by_key = {each.key: each for each in merged.entries}
    assert list(by_key) == ["conv|1", "pool|2", "new|3"]
    assert by_key["conv|1"].tuned_ns == kept_ns
    assert (choice.key, choice.winner) == ("conv|1", winner)
    assert set(merged.device_model.split(",")) == {"MI 8", "MI 8b"}


def test_merging_equal_entries_reports_no_choice() -> None:
    (merged,), choices = merge_tuned([ONE, ONE])
    assert merged == ONE
    assert not choices


def test_later_binary_wins() -> None:
    later = KernelSet(PHONE, "MI 8", {"h|-DA=1": b"newer", "k|": bytes(range(256))})
    (merged,), choices = merge_kernels([COMPILED, later])
    assert merged.binaries == {**COMPILED.binaries, "h|-DA=1": b"newer"}
    assert [choice.key for choice in choices] == ["h|-DA=1"]
