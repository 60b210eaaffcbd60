"""Devices to try farm with: a phone that speaks the ADB protocol, and an ARM64 board with a real sshd."""
