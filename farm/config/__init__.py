"""The files that people write (deployment files, devices.yml), and how their YAML becomes checked values."""
