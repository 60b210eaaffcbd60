"""Converts models of TensorFlow, Keras, LiteRT and PyTorch to ONNX, and runs them, each in a process of its own."""
