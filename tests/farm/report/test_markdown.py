"""Reports show names as they are, whatever markup they hold."""

from __future__ import annotations

from pathlib import Path

from farm.report.markdown import ReportSection, markdown, plain, write
from farm.tables.table import Table


def test_table() -> None:
    table = Table("Latency", ("Model", "ms"), [("net", "1.5")], frozenset({"Model"}))
    assert markdown(table) == "### Latency\n\n| Model | ms |\n| :--- | ---: |\n| net | 1.5 |"


def test_markup_in_names_is_shown_not_read() -> None:
    row = markdown(Table("", ("Model",), [("<script>|`a`\nb",)])).splitlines()[-1]
    assert row == r"| \<script\>\|\`a\` b |"


def test_names_neither_link_nor_notify() -> None:
    shown = plain("@everyone at https://x.example and www.x.example, a@b")
    assert "@everyone" not in shown and "://" not in shown and "www." not in shown and "@b" not in shown
    assert shown.replace("\u200b", "") == "@everyone at https://x.example and www.x.example, a@b"


def test_report_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "report.md"
    write(
        path, "Demo", [ReportSection("Run", "All fine.", [Table("", ("a",), [("1",)])]), ReportSection("Empty", "", [])]
    )
    assert path.read_text() == "# Demo\n\n## Run\n\nAll fine.\n\n| a |\n| ---: |\n| 1 |\n\n## Empty\n"
