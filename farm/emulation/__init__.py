"""Emulated units to try farm with: phones that speak the ADB protocol, and an ARM64 board with a real sshd."""

from farm.emulation.faults import Fault
from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_thread import EmulatedPhone

__all__ = ["EmulatedPhone", "Fault", "PhoneSettings"]
