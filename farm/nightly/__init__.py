"""The nightly run: its configuration, the order of its blocks, and its result."""
