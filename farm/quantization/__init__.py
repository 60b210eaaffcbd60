"""Quantises a float model: ranges of its tensors over samples, what each layer loses, and the QDQ model."""
