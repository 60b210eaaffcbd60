"""Finds the fastest launch of every kernel: candidates, search, statistics, journal.

The tuner opens no socket and starts no process: its caller supplies `measure` (see trial.Measure), which times a launch
on a unit or replays a recording.
"""
