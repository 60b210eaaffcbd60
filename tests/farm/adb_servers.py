"""An adb server of a test's own."""

from farm.emulation.attached import adb_server

__all__ = ["adb_server"]
