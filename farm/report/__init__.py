"""Reports of what was measured: pages for people, Markdown for a merge request, JUnit and JSON for programs."""

from farm.report.write import ReportFiles, ReportFormat, write_reports

__all__ = ["ReportFiles", "ReportFormat", "write_reports"]
