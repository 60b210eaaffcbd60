"""Devices to try farm with: a phone that speaks the ADB protocol, and an ARM64 board with a real sshd."""

from __future__ import annotations

from farm.emulation.emulated import EmulatedPhone
from farm.emulation.faults import Fault
from farm.emulation.phone import PhoneSettings

__all__ = ["EmulatedPhone", "Fault", "PhoneSettings"]
