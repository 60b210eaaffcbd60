"""What samples, pairs and medians say: statistics that farm, tuner and benchmarks share."""
