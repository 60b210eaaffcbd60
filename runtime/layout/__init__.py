"""Storage formats: how tensors and weights lie in memory."""
