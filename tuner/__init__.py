"""Finds the fastest launch of every kernel: candidates, search, statistics, journal.

The tuner opens no socket and starts no process: it is given `measure` (trial.py), which runs a launch on a unit, or
replays a recording.
"""
