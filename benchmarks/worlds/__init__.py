"""Worlds of noise, each made by a small pure generator: how nightly latencies vary while nothing changes."""
