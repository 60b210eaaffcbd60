"""The cheapest way through a whole network: where each operator runs, and with which algorithm."""
