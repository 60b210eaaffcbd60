"""What tests of farm share."""

from tests.farm.conftest import adb_port, own_folder

__all__ = ["adb_port", "own_folder"]
