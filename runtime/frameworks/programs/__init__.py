"""Programs that load a framework: each is started with `python -m`, and imported by nothing but tests."""
