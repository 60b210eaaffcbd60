"""The native runtime as the controller sees it: its drivers, its files on a unit, its process and its answers."""
