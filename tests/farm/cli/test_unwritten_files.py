"""Files beside the rows that cannot be written in the end, as on a full disk: the rows are there all the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm import cli
from farm.cli import benchmark, engines, quantize
from farm.rows.engines import EnginesRow
from farm.rows.quantize import QuantizeRow
from farm.rows.row import Row
from farm.rows.status import Status
from tests.farm.model.tiny_model import write_deployment
from tests.farm.rows.test_profile import benchmark_row

PAGE = Path("pages") / "page.html"
WHOSE: dict[str, Any] = {
    "unit": "host",
    "soc": "host",
    "device_model": "PC",
    "library": "lib",
    "model": "tiny",
    "runtime": "cpu",
}
PROFILE = benchmark_row().model_copy(update={"fingerprint": {"gpu": "PoCL"}})
COMMANDS: dict[str, tuple[Any, str, Row, tuple[str, ...]]] = {
    "benchmark": (benchmark, "benchmark_job", PROFILE, ("--html", str(PAGE))),
    "benchmark --trace": (benchmark, "benchmark_job", PROFILE, ("--trace", str(PAGE))),
    "engines": (engines, "engines_job", EnginesRow(**WHOSE, status=Status.OK), ("--html", str(PAGE))),
    "quantize": (
        quantize,
        "quantize_job",
        QuantizeRow(**WHOSE, status=Status.OK),
        ("--data", ".", "--html", str(PAGE)),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_page_that_cannot_be_written_hides_no_row(
    name: str,
    form: tuple[str, ...],
    own_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_deployment(own_folder)
    module, job, row, options = COMMANDS[name]

    def spoiled(*_: Any) -> Iterator[Row]:
        PAGE.parent.write_text("where a folder was to be made")
        yield row

    monkeypatch.setattr(module, job, spoiled)
    status = cli.call([name.split()[0], "tiny.yml", "--device", "host", *options, *form])
    said = capsys.readouterr()
    assert status == 1
    assert f"{PAGE}: cannot be written: " in said.err
    if form:
        assert json.loads(said.out)["rows"] == [row.model_dump(mode="json")]
    else:
        assert row.model in said.out and ("page: none" in said.out) == (name == "quantize")


def test_the_night_of_a_unit_is_of_one_unit(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_folder.joinpath("devices.yml").write_text(
        "adb: {discover: listed}\ndevices:\n  one: {transport: local}\n  two: {transport: local}\n"
    )
    assert cli.call(["unit-night"]) == 2
    assert capsys.readouterr().err == "error: one unit is needed, not 2: name it, as in --device one\n"
