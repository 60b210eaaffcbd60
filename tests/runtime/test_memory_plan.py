"""The memory plan never lets two living values overlap, and stays within its limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.lowering.memory import BufferLifetime, ImageLifetime, plan_arenas, plan_images
from runtime.plan.container import align
from runtime.plan.plan import PIXEL_BYTES
from runtime.types import ImageFormat

spans = st.tuples(st.integers(0, 30), st.integers(0, 8))
needs = st.lists(
    st.builds(lambda size, span: BufferLifetime(size, span[0], span[0] + span[1]), st.integers(1, 5000), spans)
)


@given(needs, st.integers(5056, 20000))
def test_living_values_do_not_overlap(wanted: list[BufferLifetime], limit: int) -> None:
    places, sizes = plan_arenas(wanted, limit)
    assert all(size <= limit for size in sizes)
    for i, (a, place_a) in enumerate(zip(wanted, places, strict=True)):
        assert place_a.offset % 64 == 0
        assert place_a.offset + a.size <= sizes[place_a.arena]
        for b, place_b in list(zip(wanted, places, strict=True))[:i]:
            if a.overlaps(b) and place_a.arena == place_b.arena:
                apart = place_a.offset + a.size <= place_b.offset or place_b.offset + b.size <= place_a.offset
                assert apart


@pytest.mark.slow
@given(needs)
def test_without_reuse_everything_is_apart(wanted: list[BufferLifetime]) -> None:
    _, sizes = plan_arenas(wanted, 1 << 40, reuse=False)
    assert sum(sizes) == sum(align(need.size) for need in wanted)


def test_a_chain_needs_two_buffers() -> None:
    chain = [BufferLifetime(1024, step, step + 1) for step in range(10)]
    _, sizes = plan_arenas(chain, 1 << 20)
    assert sizes == [2048]


def test_arenas_split_at_the_allocation_limit() -> None:
    together = [BufferLifetime(1024, 0, 1) for _ in range(4)]
    places, sizes = plan_arenas(together, 2048)
    assert sizes == [2048, 2048]
    assert sorted((place.arena, place.offset) for place in places) == [(0, 0), (0, 1024), (1, 0), (1, 1024)]


image_needs = st.lists(
    st.builds(
        lambda w, h, f, span: ImageLifetime(w, h, f, span[0], span[0] + span[1]),
        st.integers(1, 300),
        st.integers(1, 300),
        st.integers(0, 1),
        spans,
    )
)


@pytest.mark.slow
@given(image_needs, st.integers(0, 1 << 20))
def test_images_are_shared_only_in_turn(wanted: list[ImageLifetime], limit: int) -> None:
    """And become no larger by that than a device allocates."""
    chosen, slots = plan_images(wanted, limit)
    own = [
        max((each.width * each.height for each, slot in zip(wanted, chosen, strict=True) if slot == i), default=0)
        for i in range(len(slots))
    ]
    for (width, height, form), least in zip(slots, own, strict=True):
        assert width * height <= max(least, limit // PIXEL_BYTES[ImageFormat(form)])
    for i, (need, slot) in enumerate(zip(wanted, chosen, strict=True)):
        width, height, form = slots[slot]
        assert need.width <= width and need.height <= height and need.format == form
        for other, other_slot in list(zip(wanted, chosen, strict=True))[:i]:
            if slot == other_slot:
                assert need.last < other.first or other.last < need.first
