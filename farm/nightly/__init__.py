"""The nightly run: its file, its plan, and what came of it."""
