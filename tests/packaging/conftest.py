"""An adb server of the tests' own."""

from tests.farm.conftest import adb_port

__all__ = ["adb_port"]
