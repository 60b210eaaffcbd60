"""The machine that farm runs on: files, processes, optional packages."""
