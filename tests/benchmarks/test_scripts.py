"""Benchmarks that are one script: reports, scaling, transfer, ports, sizes and instructions say what they measure."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks import instructions, ports, sizes
from benchmarks.reporting import fill, in_a_process, spent
from benchmarks.scaling import durations, ideal_s
from benchmarks.sizes import Choice
from benchmarks.transfer import Load, Timing, measure, table
from farm.jobs.build import BuildOptions, Built
from farm.store import Store
from runtime.lowering.lower import lower
from runtime.native.features import EVERYTHING, Features
from runtime.target import Target
from runtime.types import Precision
from tests.conftest import require
from tests.farm.report import nights
from tests.native import qemu
from tests.runtime.graphs import GraphMaker


@pytest.mark.slow
def test_a_reports_time_memory_and_size_are_measured() -> None:
    found = in_a_process(20, 8)
    assert found.files > 20
    assert found.report_bytes > 1_000_000
    assert found.wall_s > 0 and found.cpu_s > 0 and found.peak_bytes > 10_000_000


@pytest.mark.slow
def test_a_store_has_as_many_series_and_nights_as_asked_and_is_judged(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "farm.db")) as store:
        last = fill(store, 500, 9)  # more than the phones that differ have
        points = store.series()
    assert 500 <= len(points) < 510 and {len(each) for each in points.values()} == {9}
    assert {each[-1].run for each in points.values()} == {last}
    found = spent(500, 9, str(tmp_path / "farm.db"))
    assert found.judging_s > 0 and found.series == len(points) < found.files


def test_made_up_nights_have_as_many_series_and_points_as_asked() -> None:
    made = nights.many(100, 12)
    assert len(made.series) == 100
    assert {len(each.points) for each in made.series} <= {2, 11, 12}


def test_no_schedule_is_shorter_than_its_longest_job_or_its_share() -> None:
    assert ideal_s([1.0, 1.0, 1.0, 1.0], 2) == 2.0
    assert ideal_s([5.0, 1.0], 2) == 5.0


def test_jobs_are_the_same_each_time_and_about_as_long_as_asked() -> None:
    found = durations(1000, 2.0)
    assert found == durations(1000, 2.0)
    assert sum(found) / 1000 == pytest.approx(2.0, rel=0.05)
    assert min(found) >= 1.0 and max(found) <= 3.0


LOADS = (Load("one", 1, 1000), Load("some", 3, 10))


def test_every_way_gets_new_files_in_turns_and_the_first_round_does_not_count(tmp_path: Path) -> None:
    sent: list[tuple[str, str, list[int]]] = []

    def way(name: str) -> Callable[[Sequence[Path], str], Callable[[], object]]:
        return lambda files, into: lambda: sent.append((name, into, [file.stat().st_size for file in files]))

    timings = measure({"a": way("a"), "b": way("b")}, LOADS, 2, tmp_path)
    assert [name for name, _, sizes in sent if sizes == [1000]] == ["a", "b", "b", "a", "a", "b"]
    assert len({into for _, into, _ in sent}) == len(sent) == 12
    assert [(each.load, each.way, len(each.seconds)) for each in timings] == [
        ("one", "a", 2),
        ("one", "b", 2),
        ("some", "a", 2),
        ("some", "b", 2),
    ]


def test_the_table_compares_medians_with_the_reference() -> None:
    timings = [Timing("one", "scp", [2.0, 9.0, 1.0]), Timing("one", "farm", [4.0, 1.0, 1.0])]
    _, scp, farm = table(timings, LOADS[:1], "scp").splitlines()
    assert scp.split()[2:5] == ["2.000", "s", "1.000-9.000"]
    assert scp.endswith("100%")
    assert farm.endswith("200%")


ASSEMBLY = """\
first:                                  // @first
.LBB0_1:                                // =>This Inner Loop Header: Depth=1
\tldr\tq4, [x0], #16
\tfmla\tv0.4s, v4.4s, v5.s[0]
\tfmla\tv1.4s, v4.4s, v5.s[1]
\tfmla\tv2.4s, v4.4s, v5.s[2]
\tfmla\tv3.4s, v4.4s, v5.s[3]
\tsubs\tx1, x1, #1
\tb.ne\t.LBB0_1
.LBB0_2:
\tfmla\tv0.4s, v4.4s, v5.s[0]
\tcbnz\tw2, .LBB0_1
second:
.LBB1_1:
\tfmla\tv0.4s, v4.4s, v5.s[0]
\tcbnz\tw2, .LBB1_1
"""
LARGEST = {"cpu_lanes_product_generic_8": "product_5_2", "cpu_lanes_product_generic_16": "product_5_1"}


def test_loops_are_runs_that_end_where_they_began() -> None:
    (loop,) = ports.loops(ASSEMBLY)
    assert (loop.function, len(loop.lines), len(loop.products)) == ("first", 7, 4)
    assert ports.largest([loop, ports.Loop("first", loop.lines[:2])]) == [loop]


@pytest.mark.slow
def test_the_largest_tiles_fill_the_units_of_cortex_a76() -> None:
    require("llvm-mca", "" if shutil.which("llvm-mca") else "no llvm-mca: apt install llvm")
    found = {
        unit: ports.use("llvm-mca", "neoverse-n1", loop)
        for unit, assembly in ports.assemblies("arm64")
        for loop in ports.largest(list(ports.loops(assembly)))
        if LARGEST.get(unit) == loop.function
    }
    assert found.keys() == LARGEST.keys()
    assert min(found.values()) > 0.9, found


ROWS = [
    Choice("all of it", EVERYTHING),
    Choice("`--only-operators` one, `runtime: cpu+gpu`", Features(operators=frozenset({"pool", "copy"}))),
    Choice("`--only-operators` two, `runtime: cpu+gpu`", Features(operators=frozenset({"copy", "pool"}))),
]


def test_table(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Features]] = []

    def build(abi: str, options: BuildOptions) -> Built:
        asked.append((abi, options.features))
        size = 1000 if options.features.operators is None else 600
        return Built(abi, "", size, f"cc for {abi}", 0.0, "", "", "", size // 2, (), None)

    monkeypatch.setattr(sizes, "build", build)
    lines = list(sizes.page(ROWS, ["host", "arm64"], sizes.measured(ROWS, ["host", "arm64"])))
    assert len(asked) == 4
    assert "| all of it | 1,000 | 1,000 |" in lines and "| all of it | 500 | 500 |" in lines
    assert "| `--only-operators` two, `runtime: cpu+gpu` | 600 | 600 |" in lines
    assert "(host: cc for host; arm64: cc for arm64)" in lines[0]


def test_the_page_has_its_place_and_a_row_for_each_network() -> None:
    text = Path(sizes.PAGE).read_text()
    table = text.partition(sizes.BEGIN)[2].partition(sizes.END)[0]
    for network in sizes.NETWORKS:
        assert all(f"| `--only-operators` {network}, `runtime: {runtime}` | " in table for runtime in sizes.RUNTIMES)


BLOCK_A = b"IN: main\n0x00401000:  d2800000  mov\n0x00401004:  d65f03c0  ret\n\n"
BLOCK_B = b"IN: \n0x00402000:  d65f03c0  ret\n\n"
TRACE = b"Trace 0: 0x7f0 [00000000/%016x/00000000/00000000] \n"


def log_of(*parts: bytes) -> list[bytes]:
    return b"".join(parts).splitlines(keepends=True)


def test_each_entry_counts_its_block() -> None:
    enter_a, enter_b = TRACE % 0x401000, TRACE % 0x402000
    assert instructions.count(log_of(BLOCK_A, enter_a, BLOCK_B, enter_b, enter_a, enter_a)) == 3 * 2 + 1


def test_a_block_that_is_translated_again_counts_as_it_was_before() -> None:
    longer = BLOCK_A.replace(b"\n\n", b"\n0x00401008:  d503201f  nop\n\n")
    assert instructions.count(log_of(BLOCK_A, TRACE % 0x401000, longer, TRACE % 0x401000)) == 2 + 3


@pytest.mark.slow
def test_a_round_on_arm64() -> None:
    require("qemu", qemu.missing("arm64"))
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(1, 64, 6, 6), 64, k=1))
    plan = lower(graph, Target("any", "arm64", memory="cpu", precision=Precision.FP16))
    floats, halves = (instructions.of_a_round("arm64", plan, "neoverse-n1", isa) for isa in ("generic", "fp16"))
    assert 1_000 < halves < floats < 10_000_000
