"""How plans were executed, on a terminal: a table of memory, and lines for what was asked of CPUs and drivers."""

from collections.abc import Iterator, Sequence

from farm.rows.benchmark import BenchmarkRow
from farm.rows.core_waits import busy_text
from farm.rows.execution import CpuUse, HintFigures
from farm.rows.row import played_note
from farm.rows.run import RunRow
from farm.tables.table import Table

MEMORY_COLUMNS = ("Model", "Unit", "Runtime", "Planned(MB)", "Peak(MB)", "GPU(MB)")
LEFT = frozenset({"Model", "Unit", "Runtime"})
BYTES_PER_MB = 1024**2

ExecutedRow = RunRow | BenchmarkRow


def memory_table(rows: Sequence[ExecutedRow], title: str = "") -> list[Table]:
    """What farmrt allocated for each plan, and the most that its process and the GPU's driver held; none without."""
    known = [row for row in rows if row.peak_memory]
    keys = telling_columns(rows)
    return [Table(title, MEMORY_COLUMNS, [_memory(row) for row in known], LEFT, keys=keys)] if known else []


def telling_columns(rows: Sequence[ExecutedRow]) -> tuple[str, ...]:
    """The columns that tell rows apart: each part of a table that is too wide has them, and no others."""
    told = (("Unit", {row.unit for row in rows}), ("Runtime", {row.runner for row in rows}))
    return ("Model", *(name for name, values in told if len(values) > 1))


def _memory(row: ExecutedRow) -> list[str]:
    assert row.peak_memory
    sizes = (sum(row.memory_bytes.values()) or None, row.peak_memory.resident_bytes, row.peak_memory.gpu_bytes)
    return [row.model, row.unit, row.runner, *map(_megabytes, sizes)]


def _megabytes(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / BYTES_PER_MB:.1f}"


def execution_lines(rows: Sequence[ExecutedRow]) -> list[str]:
    """What slowed the unit down, and what came of what was asked for: nothing where nothing did, or was."""
    return [f"{row.model} on {row.unit} ({row.runner}): {line}" for row in rows for line in _lines(row)]


def _lines(row: ExecutedRow) -> Iterator[str]:
    if note := played_note(row.fingerprint, row.runtime):
        yield note
    if isinstance(row, BenchmarkRow) and row.timed_by_host:
        yield f"operators are timed by the host's clock: {row.timed_by_host}"
    if row.throttled:
        yield f"slowed down: {row.throttled}"
    if busy := busy_text(row.waited_share):
        yield busy
    if row.cpu and (row.cpu.policy != "none" or row.cpu.cpus_in_force):
        yield from _cpu_lines(row.cpu, row.settings.get("num_threads"))
    yield from hint_lines(row)
    if row.smaller_groups:
        yield f"{row.smaller_groups} steps have smaller work groups than planned: the GPU allows their kernels no more"
    if row.refused_kernels:
        count, first = len(row.refused_kernels), row.refused_kernels[0]
        yield f"{count} variants of kernels do not work with the GPU's driver; the plan does without: {first}"
    if row.launch_limit:
        limit = row.launch_limit
        yield f"limit_opencl_kernel_time: {limit.split_steps} steps split, {limit.launches} launches a round"


def hint_lines(row: HintFigures) -> Iterator[str]:
    """What became of each hint that was asked for."""
    for name, hint in (("gpu_perf_hint", row.gpu_perf_hint), ("gpu_priority_hint", row.gpu_priority_hint)):
        if hint and hint.asked != "default":
            yield f"{name} {hint.asked}: {hint.outcome}{hint.extension and f' ({hint.extension})'}"


def _cpu_lines(cpu: CpuUse, asked: int | None) -> Iterator[str]:
    """The CPUs in force where a policy was asked for; and more threads than CPUs, of so many that were asked for."""
    if not cpu.is_in_force:
        yield f"cpu_affinity_policy {cpu.policy}: CPUs {cpu.cpus} were chosen, but the kernel says {_in_force(cpu)}"
    elif cpu.policy != "none":
        fewer = f", not {asked}: one for each CPU" if asked and cpu.threads < asked else ""
        yield f"cpu_affinity_policy {cpu.policy}: {cpu.threads} threads on CPUs {cpu.cpus}{fewer}"
    elif cpu.threads > _count(cpu.cpus):
        yield f"{cpu.threads} threads share the CPUs {cpu.cpus}: that is more than there are"


def _in_force(cpu: CpuUse) -> str:
    return " and ".join(dict.fromkeys(text or "nothing" for text in cpu.cpus_in_force)) or "nothing"


def _count(cpus: str) -> int:
    """How many CPUs a list such as `0-3,6` has."""
    ranges = (part.partition("-") for part in cpus.split(",") if part)
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)
