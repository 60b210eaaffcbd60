"""Writers of model files: the graph to ONNX."""
