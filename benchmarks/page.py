"""The report as a Markdown page: for each section the figures, then what limits them (the texts below)."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks.figures import ONNX_RUNTIME, Entrant, Interval, Report, Run, Start, Tuning
from farm.rows.latency import Latency
from farm.rows.status import Status

_IMAGES = ("squeezenet_v11", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_lite0")
_ZOO = (*_IMAGES, "resnet50", "inception_v3", "vit_tiny", "bert_mini")
AIMS = {"system": dict.fromkeys(_ZOO, 1.0), "intel": dict.fromkeys(_ZOO, 1.0), "pypi": dict.fromkeys(_ZOO, 4.0)}
TUNED, DEFAULT = "tuned", "default"
BUSY_CORES = 0.1
NOTHING = "-"

Row = Sequence[str]
Section = Iterator[str]


def page(report: Report) -> str:
    """The whole page; ends with a newline."""
    sections: list[Section] = [_head(report)]
    if report.runs:
        sections += [_latency(report), _cold_start(report.runs), _tuning(report.runs)]
    if report.light:
        sections.append(_light(report.light))
    sections.append(_failures(report))
    return "\n".join(line for section in sections for line in section).rstrip() + "\n"


def _head(report: Report) -> Section:
    machine = report.machine
    yield from ("# Benchmarks", "", INTRODUCTION, "", f"    {report.command}", "")
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    yield f"- {report.date}; took {report.wall_s / 60:.0f} minutes; other work took {report.others_cores:.2f} cores"
    yield f"- {machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB; {machine.system}"
    yield from (f"- driver `{each.origin}`: {each.version}; device {each.device}" for each in report.drivers)
    yield from (f"- driver `{origin}`: not on this machine" for origin in report.missing_drivers)
    yield from (f"- {versions}", "")
    if _disturbed(report):
        yield from ("**The machine had other work to do: times and ratios are disturbed, and no aim is judged.**", "")


def _disturbed(report: Report) -> bool:
    return report.others_cores > BUSY_CORES


def _latency(report: Report) -> Section:
    runs, names = report.runs, _names(report.runs)
    yield from ("## Latency, ONNX Runtime = 1", "")
    judged = not _disturbed(report)
    rows = [
        [
            *(run.model, run.driver, _aim(run, judged), *(_ratio(run.entrant(name)) for name in names)),
            _milliseconds(run.entrant(ONNX_RUNTIME)),
        ]
        for run in runs
    ]
    yield from _table(("Model", "Driver", "Aim, tuned", *map(str.capitalize, names), f"{ONNX_RUNTIME}, ms"), rows)
    yield from (LATENCY, "")


def _names(runs: Iterable[Run]) -> list[str]:
    """Names of all ways to run, ONNX Runtime's left out, in the order in which they first come."""
    found = dict.fromkeys(each.name for run in runs for each in run.entrants)
    found.pop(ONNX_RUNTIME, None)
    return list(found) or [DEFAULT]


def _aim(run: Run, judged: bool) -> str:
    aim = AIMS.get(run.driver, {}).get(run.model)
    ratios = [each.to_onnxruntime.value for each in _right(run) if each.to_onnxruntime and each.name == TUNED]
    if aim is None:
        return NOTHING
    if not ratios or not judged:
        return str(aim)
    return f"{aim}: {'reached' if min(ratios) <= aim else 'missed'}"


def _right(run: Run) -> list[Entrant]:
    return [each for each in run.entrants if each.status == Status.OK]


def _ratio(entrant: Entrant | None) -> str:
    return _cell(entrant, lambda found: _interval(found.to_onnxruntime, "{:.2f}"))


def _milliseconds(entrant: Entrant | None) -> str:
    return _cell(entrant, lambda found: _latency_cell(found.latency_ms))


def _cell(entrant: Entrant | None, shown: Callable[[Entrant], str]) -> str:
    """A figure of a way to run; its status where it failed or computed something else."""
    if entrant is None:
        return NOTHING
    return shown(entrant) if entrant.status == Status.OK else entrant.status.value


def _latency_cell(latency: Latency | None) -> str:
    if latency is None:
        return NOTHING
    low, middle, high = _quartiles(latency.samples)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def _quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, middle, high


def _interval(interval: Interval | None, form: str) -> str:
    if interval is None:
        return NOTHING
    value, low, high = (form.format(each) for each in (interval.value, interval.low, interval.high))
    return f"{value} ({low}–{high})" if interval.low >= 0 else f"{value} ({low} to {high})"


def _cold_start(runs: Sequence[Run]) -> Section:
    yield from ("## First result from cold", "")
    columns = ("Model", "Driver", "Without / with compiled kernels", "Tuned, built, s")
    rows = []
    for run in runs:
        found = run.cold_start
        if found:
            ratio = statistics.median(found.tuned.seconds) / statistics.median(found.compiled.seconds)
            starts = (_start(each) for each in (found.tuned, found.compiled))
            rows.append([run.model, run.driver, f"{ratio:.0f}", *starts, f"{found.onnxruntime_s:.2f}"])
        else:
            rows.append([run.model, run.driver, *[NOTHING] * 4])
    yield from _table((*columns, "Tuned, compiled kernels, s", f"{ONNX_RUNTIME}, s"), rows)
    yield from (COLD_START, "")


def _start(start: Start) -> str:
    """Median seconds, and how many programs were built."""
    built = f"; {start.built} programs" if start.built else ""
    return f"{statistics.median(start.seconds):.2f}{built}"


def _tuning(runs: Sequence[Run]) -> Section:
    level = next((each.level for run in runs for each in run.tunings), "")
    yield from (f"## Tuning (`farm tune --level {level}`)", "")
    columns = ("Model", "Driver", "Gain, %", "Device, s", "Wall, s", "Launches tuned")
    rows = [[run.model, run.driver, *_tuning_cells(each)] for run in runs for each in run.tunings]
    yield from _table(columns, rows)
    yield from (TUNING, "")


def _tuning_cells(tuning: Tuning) -> Row:
    if tuning.status != Status.OK:
        return [tuning.status.value, *[NOTHING] * 3]
    return [
        _interval(tuning.gain_percent, "{:.0f}"),
        f"{tuning.device_s:.1f}",
        f"{tuning.wall_s:.0f}",
        f"{tuning.launches_tuned} of {tuning.launches}",
    ]


def _light(runs: Sequence[Run]) -> Section:
    yield from ("## The onnx package's networks, default only, ONNX Runtime = 1", "")
    columns = ("Model", "Driver", "Default", "Default, ms", f"{ONNX_RUNTIME}, ms")
    rows = []
    for run in runs:
        default, reference = run.entrant(DEFAULT), run.entrant(ONNX_RUNTIME)
        rows.append([run.model, run.driver, _ratio(default), _milliseconds(default), _milliseconds(reference)])
    yield from _table(columns, rows)
    yield from (LIGHT, "")


def _failures(report: Report) -> Section:
    lines = [f"- {line}" for line in report.failures]
    for run in (*report.runs, *report.light):
        lines += [f"- {run.model} on {run.driver}: {line}" for line in run.failures]
        wrong = [each for each in run.entrants if each.status != Status.OK]
        lines += [f"- {run.model} on {run.driver}: {each.name}: {each.status}: {each.reason}" for each in wrong]
    if lines:
        yield from ("## What failed", "", *lines, "")


def _table(columns: Row, rows: Iterable[Row]) -> Section:
    """A Markdown table, words to the left and figures to the right, and an empty line."""
    rows = list(rows)
    yield _line(columns)
    yield _line(["---:" if rows and any(row[i][:1].isdigit() for row in rows) else "---" for i in range(len(columns))])
    yield from map(_line, rows)
    yield ""


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


INTRODUCTION = """\
farm on this machine, side by side with ONNX Runtime on the same cores: fp32, batch 1, the zoo's models in full size.
From one run of"""

LATENCY = """\
All ways to run a model are loaded at the same time and run in turns (A B C, B C A, ...), each turn a warm-up and up to
ten rounds, from the input in place to the output in place. ONNX Runtime has one thread a core and its own
optimizations. A ratio is that of the medians, with the 95 % interval of turns drawn again; milliseconds are a median
with quartiles. *Aim* judges the tuned way. *Winograd 0*, *2* and *4* have one algorithm for all layers, by default
and tuned each has its own.

Nearly all the time is in convolutions (94 to 99 %). Winograd needs 2.25 (tile 2) or 4 (tile 4) times fewer
multiplications for 3x3 convolutions of stride 1, but its transforms move memory."""

COLD_START = """\
A start is a whole process, `farmrt run` with an empty PoCL cache (`POCL_CACHE_DIR`), until the output is in a file. The
driver's compiler takes most of it. The first column compares tuned starts. ONNX Runtime's time is a session and its
first run, without starting a process."""

TUNING = """\
Each tuning starts with an empty build folder and an empty PoCL cache. Device seconds are what a level counts: building
candidates, running and checking them. Wall seconds are the whole command. *Gain* is the part of the default's time that
is saved, often near zero, since the defaults were chosen on these drivers."""

LIGHT = """\
The nine networks of the onnx package's backend tests, their constant weights replaced by seeded random ones; measured
as above, without tuning."""
