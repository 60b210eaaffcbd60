"""`farm tune`: search on units, artifacts, and the proof of what they gain."""
