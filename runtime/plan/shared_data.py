"""One data file for plans that have weights in common, as those of one network's subgraphs do."""

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from runtime.plan.plan import Plan
from runtime.plan.records import PoolKind


def with_shared_data(plans: Sequence[Plan]) -> list[Plan]:
    """The plans, in groups that have much in common; the plans of a group have one data file, each constant once.

    Pools and images of weights are compared as wholes: plans are lowered with Options.separate_weights, and without
    expectations of trials. A plan that has little in common with the others stays as it is, since loading a plan reads
    all of its data file.
    """
    shared = list(plans)
    contents = [set(_constants(plan).values()) for plan in plans]
    for group in _groups(contents):
        if len(group) > 1:
            data, offsets = _joined(content for index in group for content in _constants(plans[index]).values())
            for index in group:
                shared[index] = _placed(plans[index], data, offsets)
    return shared


def _constants(plan: Plan) -> dict[int, bytes]:
    """What the plan has in its data file, by offset."""
    return {start: plan.data[start : start + size] for start, size in plan.constants}


def _groups(contents: Sequence[Collection[bytes]]) -> list[list[int]]:
    groups: list[list[int]] = []
    for index, own in enumerate(contents):
        near = [group for group in groups if any(_have_much_in_common(own, contents[other]) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append(sorted([index, *(other for group in near for other in group)]))
    return groups


def _have_much_in_common(a: Collection[bytes], b: Collection[bytes]) -> bool:
    """Whether half of the smaller one, or more, is in the other."""
    return 2 * sum(len(content) for content in a if content in b) >= min(sum(map(len, a)), sum(map(len, b))) > 0


def _joined(contents: Iterable[bytes]) -> tuple[bytes, dict[bytes, int]]:
    """All distinct contents, and where each lies; all are of aligned sizes."""
    data, offsets = bytearray(), dict[bytes, int]()
    for content in contents:
        if content not in offsets:
            offsets[content] = len(data)
            data += content
    return bytes(data), offsets


def _placed(plan: Plan, data: bytes, offsets: dict[bytes, int]) -> Plan:
    moved = {start: offsets[content] for start, content in _constants(plan).items()}
    pools = tuple(
        dataclasses.replace(pool, data_offset=moved[pool.data_offset]) if pool.kind == PoolKind.WEIGHTS else pool
        for pool in plan.pools
    )
    images = tuple(
        image if image.data_offset is None else dataclasses.replace(image, data_offset=moved[image.data_offset])
        for image in plan.images
    )
    return dataclasses.replace(plan, data=data, pools=pools, images=images)
