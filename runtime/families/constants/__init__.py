"""What makes constants, and counts."""
