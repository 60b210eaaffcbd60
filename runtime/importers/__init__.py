"""Readers of model files: ONNX to the graph."""
