"""What a plan holds (inspection), and what it will do on a device (forecast)."""
