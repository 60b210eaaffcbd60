"""The version of farmrt and of what plans ask of it; it is part of every fingerprint and of farmrt's build."""

RUNTIME_VERSION = "0.1.0"
