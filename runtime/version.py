"""Version of farmrt and of what plans ask of it: part of every fingerprint; farmrt's build takes it from here."""

RUNTIME_VERSION = "0.1.0"
