"""`farm demo`."""
