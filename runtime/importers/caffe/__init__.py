"""Reads Caffe networks (.prototxt and .caffemodel) as ONNX models."""
