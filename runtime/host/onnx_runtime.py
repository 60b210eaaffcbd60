"""ONNX Runtime without telemetry: since 1.32 it keeps an identifier in the home folder, and its thread sends events.

It reads the switch when it is imported; so all of farm imports it from here. Who sets ORT_DISABLE_TELEMETRY decides.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime as onnxruntime
