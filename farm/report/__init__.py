"""Reports of what was measured: pages for people, Markdown for a merge request, JUnit and JSON for programs."""

from farm.report.write import Format, ReportFiles, write_reports

__all__ = ["Format", "ReportFiles", "write_reports"]
