"""What people write: deployment files, devices.yml, and how YAML becomes checked values."""
