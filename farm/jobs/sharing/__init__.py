"""What tuning left on hosts that have no cluster, brought together over a place that all of them reach."""
