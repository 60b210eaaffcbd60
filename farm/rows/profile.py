"""Statistics of a model benchmark, made of each step's times: operators, operator types, rounds. Pure."""

import statistics
from collections.abc import Iterable, Sequence

from pydantic import Field

from farm.rows.benchmark import NS_PER_MS, MacsSummary, OperatorType, ProfiledOperator, ProfiledRounds, Rounds
from farm.rows.record import Record
from runtime.plan.plan import Step, StoredTensor
from runtime.plan.records import StepKind


class StepTimes(Record):
    """farmrt's times of one step: start within the last round, first round, every round."""

    start_ns: float
    first_ns: float
    ns: tuple[float, ...] = Field(min_length=1)


def operators(
    steps: Sequence[Step], times: Sequence[StepTimes], contents: Sequence[StoredTensor] = ()
) -> list[ProfiledOperator]:
    """Operators in run order, with what they read and move where the tensors of the plan are given."""
    reads, moved = _reads(contents), _moved_bytes(contents)
    averages = [statistics.fmean(time.ns) for time in times]
    total = sum(averages)
    ops, cumulative = [], 0.0
    for number, (step, time, average) in enumerate(zip(steps, times, averages, strict=True)):
        percent = share(average, total)
        cumulative += percent
        flow = {"reads": tuple(sorted(reads.get(number, ()))), "moved_bytes": moved.get(number, 0)}
        ops.append(_operator(step, time, average, percent, cumulative).model_copy(update=flow))
    return ops


def _reads(contents: Iterable[StoredTensor]) -> dict[int, set[int]]:
    """Step -> the steps before it that write what it reads."""
    reads: dict[int, set[int]] = {}
    for tensor in contents:
        for reader in tensor.read_by:
            reads.setdefault(reader, set()).update(writer for writer in tensor.written_by if writer < reader)
    return reads


def _moved_bytes(contents: Iterable[StoredTensor]) -> dict[int, int]:
    """Step -> bytes of the tensors that it reads and writes; of one that it uses a part of, those of the part."""
    used: dict[int, list[StoredTensor]] = {}
    for tensor in contents:
        for step in {*tensor.read_by, *tensor.written_by}:
            used.setdefault(step, []).append(tensor)
    return {
        step: sum(each.size_bytes for each in tensors if each.name not in {part.part_of for part in tensors})
        for step, tensors in used.items()
    }


def _operator(step: Step, time: StepTimes, average_ns: float, percent: float, cumulative: float) -> ProfiledOperator:
    return ProfiledOperator(
        name=step.name,
        type=step.op,
        device="cpu" if step.kind == StepKind.CPU else "gpu",
        start_ms=time.start_ns / NS_PER_MS,
        first_ms=time.first_ns / NS_PER_MS,
        last_ms=time.ns[-1] / NS_PER_MS,
        avg_ms=average_ns / NS_PER_MS,
        percent=percent,
        cdf_percent=cumulative,
        macs=step.macs,
        gmacps=rate(step.macs, average_ns),
        stride=step.shown.stride,
        pad=step.shown.pad,
        filter_shape=step.shown.filter_shape,
        output_shape=step.shown.output_shape,
        dilation=step.shown.dilation,
        note=step.note,
    )


def by_time(ops: Sequence[ProfiledOperator], limit: int = 10) -> list[ProfiledOperator]:
    """The operators that take longest, cumulated in that order."""
    slowest, cumulative = [], 0.0
    for op in sorted(ops, key=lambda op: -op.avg_ms)[:limit]:
        cumulative += op.percent
        slowest.append(op.model_copy(update={"cdf_percent": cumulative}))
    return slowest


def by_type(ops: Sequence[ProfiledOperator], rounds: int) -> list[OperatorType]:
    """ProfiledOperator types, the one that takes longest first."""
    groups: dict[str, list[ProfiledOperator]] = {}
    for op in ops:
        groups.setdefault(op.type, []).append(op)
    ordered = sorted(groups.items(), key=lambda item: -sum(op.avg_ms for op in item[1]))
    total, cumulative, types = sum(op.avg_ms for op in ops), 0.0, []
    for kind, members in ordered:
        average = sum(op.avg_ms for op in members)
        cumulative += share(average, total)
        types.append(_operator_type(kind, members, average, share(average, total), cumulative, rounds))
    return types


def _operator_type(
    kind: str, members: Sequence[ProfiledOperator], average_ms: float, percent: float, cumulative: float, rounds: int
) -> OperatorType:
    macs = sum(op.macs for op in members)
    return OperatorType(
        type=kind,
        count=len(members),
        avg_ms=average_ms,
        percent=percent,
        cdf_percent=cumulative,
        macs=macs,
        gmacps=rate(macs, average_ms * NS_PER_MS),
        called_times=len(members) * rounds,
    )


def round_sums_ns(times: Sequence[StepTimes]) -> list[float]:
    """Sum over all operators, for each round."""
    return [sum(round_ns) for round_ns in zip(*(time.ns for time in times), strict=True)]


def macs_summary(macs: int, round_ns: Sequence[float]) -> MacsSummary:
    """Multiply-accumulates a second over the rounds' operator sums."""
    rates = [rate(macs, sample) for sample in round_ns]
    return MacsSummary(
        total=macs,
        round=len(rates),
        first_gmacps=rates[0],
        avg_gmacps=rate(macs, statistics.fmean(round_ns)),
        std_gmacps=statistics.pstdev(rates),
    )


def profiled_rounds(
    steps: Sequence[Step],
    times: Sequence[StepTimes],
    wall_ns: Sequence[float],
    contents: Sequence[StoredTensor] = (),
    timed_by_host: str = "",
) -> ProfiledRounds:
    """The profiled rounds of a BenchmarkRow; `contents` are the tensors of its plan."""
    ops = operators(steps, times, contents)
    sums_ns = round_sums_ns(times)
    return ProfiledRounds(
        with_statistics=Rounds.of(wall_ns),
        ops=tuple(ops),
        op_types=tuple(by_type(ops, len(sums_ns))),
        macs=macs_summary(sum(step.macs for step in steps), sums_ns),
        ops_summary=Rounds.of(sums_ns),
        sum_to_wall=statistics.median(total / wall for total, wall in zip(sums_ns, wall_ns, strict=True)),
        timed_by_host=timed_by_host,
    )


def share(part: float, whole: float) -> float:
    """Percentage; 0 of nothing."""
    return 100 * part / whole if whole else 0.0


def rate(count: float, time_ns: float) -> float:
    """10^9 a second; 0 where no time was measured."""
    return count / time_ns if time_ns else 0.0
