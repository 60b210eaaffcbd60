"""Rows, the results of jobs as typed values, and the series that nightly rows form."""
