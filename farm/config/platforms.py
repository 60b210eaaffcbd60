"""The platforms that models come from: the order of their axes, and what may compute their reference outputs."""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from farm.config.suggestion import suggestion

DataFormat = Literal["NCHW", "NHWC", "NONE"]


@dataclasses.dataclass(frozen=True)
class Platform:
    """A kind of model.

    Attributes:
        own_format: the order of an image's axes in the model itself.
        backends: what may compute the reference outputs; the first does unless the deployment file says otherwise.
        has_weight_file: whether the weights lie in a file of their own, `weight_file_path`.
    """

    own_format: DataFormat
    backends: tuple[str, ...]
    has_weight_file: bool = False


PLATFORMS: Mapping[str, Platform] = {
    # MACE's backends are ways to run an ONNX model for its reference outputs; ONNX Runtime stands for all of them.
    "onnx": Platform("NCHW", ("onnxruntime", "tensorflow", "caffe2", "pytorch")),
    "tensorflow": Platform("NHWC", ("tensorflow", "onnxruntime")),
    "keras": Platform("NHWC", ("tensorflow", "onnxruntime")),
    "tflite": Platform("NHWC", ("litert", "onnxruntime")),
    "caffe": Platform("NCHW", ("onnxruntime",), has_weight_file=True),
    "pytorch": Platform("NCHW", ("pytorch", "onnxruntime")),
}


def known_platform(value: str) -> str:
    """The platform; ValueError for one that there is not."""
    if value not in PLATFORMS:
        raise ValueError(f"{value!r} is no platform that is supported{suggestion(value, PLATFORMS)}")
    return value


def known_backend(value: str, platform: str | None) -> str:
    """The backend; ValueError for one that cannot run the platform's models."""
    backends = PLATFORMS[platform].backends if platform else (value,)  # a wrong platform is told on its own
    if value not in backends:
        raise ValueError(f"{value!r} cannot run models of platform {platform}; write {' or '.join(backends)}")
    return value
