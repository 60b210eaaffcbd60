"""Models: fetched, cut at their boundary, computed by the oracle, compared with it."""
