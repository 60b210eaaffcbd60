"""Networks of other frameworks with seeded weights: saved, converted, run here, and compared with the framework.

    python -m benchmarks.framework_networks FOLDER [NETWORK ...]

prints a row for each network and runtime. Needs the extras `tensorflow` and `pytorch`; downloads nothing.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import farm
from runtime.errors import FarmError

SEED = 7
SIZES = {"InceptionV3": 299}
DEFAULT_SIZE = 224
KERAS = (
    *("MobileNet", "MobileNetV2", "MobileNetV3Small", "MobileNetV3Large", "InceptionV3", "ResNet50"),
    *("EfficientNetB0", "NASNetMobile", "DenseNet121"),
)

DEPLOYMENT = """library_name: frameworks
target_abis: [host]
models:
  {name}:
    platform: {platform}
    model_file_path: {file}
    subgraphs:
      - input_tensors: [{input}]
        input_shapes: ["{shape}"]
        output_tensors: [{output}]
    runtime: cpu+gpu
    data_type: fp32_fp32
"""


def keras_application(folder: Path, name: str) -> Path:
    """A network of keras.applications as .keras, and its deployment file."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(SEED)
    size = SIZES.get(name, DEFAULT_SIZE)
    image = tf.keras.Input((size, size, 3), name="image")
    model = getattr(tf.keras.applications, name)(weights=None, input_tensor=image)
    _stir(model)
    model.save(folder / f"{name}.keras")
    return _deployment(folder, name, "keras", f"{name}.keras", "image", (1, size, size, 3), model.layers[-1].name)


def litert_application(folder: Path, name: str) -> Path:
    """A network of keras.applications for one image as .tflite, and its deployment file."""
    converter, size = _litert_converter(name)
    (folder / f"{name}.tflite").write_bytes(converter.convert())
    return _deployment(folder, name, "tflite", f"{name}.tflite", "image", (1, size, size, 3), "output_0")


def litert_integers(folder: Path, name: str) -> Path:
    """The same in integers inside, floats outside: ranges are of seeded noise."""
    import numpy as np
    import tensorflow as tf

    converter, size = _litert_converter(name)
    random = np.random.default_rng(SEED)
    images = [random.uniform(-1, 1, (1, size, size, 3)).astype("f") for _ in range(4)]
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image] for image in images)
    made = f"{name}_8bit"
    (folder / f"{made}.tflite").write_bytes(converter.convert())
    return _deployment(folder, made, "tflite", f"{made}.tflite", "image", (1, size, size, 3), "output_0")


def _litert_converter(name: str) -> tuple[Any, int]:
    """That of a network for one image, and the image's size."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(SEED)
    size = SIZES.get(name, DEFAULT_SIZE)
    image = tf.keras.Input((size, size, 3), batch_size=1, name="image")
    model = getattr(tf.keras.applications, name)(weights=None, input_tensor=image)
    _stir(model)
    return tf.lite.TFLiteConverter.from_keras_model(model), size


def deeplab_head(folder: Path) -> Path:
    """MobileNetV2 as backbone, dilated branches beside an image-wide one, resized to the image, as a SavedModel."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(SEED)
    layers = tf.keras.layers
    image = tf.keras.Input((128, 128, 3), name="image", batch_size=1)
    backbone = tf.keras.applications.MobileNetV2(weights=None, include_top=False, input_tensor=image, alpha=0.5)
    features = backbone.get_layer("block_13_expand_relu").output
    branches = [_branch(features, filters=32, size=size, rate=rate) for size, rate in ((1, 1), (3, 2), (3, 4), (3, 6))]
    pooled = layers.GlobalAveragePooling2D(keepdims=True)(features)
    pooled = layers.Conv2D(32, 1, activation="relu")(pooled)
    pooled = layers.UpSampling2D(features.shape[1:3], interpolation="bilinear")(pooled)
    joined = layers.Conv2D(32, 1, activation="relu")(layers.Concatenate()([*branches, pooled]))
    scores = layers.Conv2D(21, 1)(joined)
    model = tf.keras.Model(image, layers.Resizing(128, 128, name="scores")(scores))
    _stir(model)
    model.export(folder / "deeplab", verbose=False)
    return _deployment(folder, "deeplab", "tensorflow", "deeplab", "image", (1, 128, 128, 3), "output_0")


def tf1_frozen(folder: Path) -> Path:
    """A graph as TensorFlow 1 froze them: placeholders, fused batch normalisation, FakeQuant nodes."""
    import numpy as np
    import tensorflow as tf

    v1, random = tf.compat.v1, np.random.default_rng(SEED)
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, (None, 32, 32, 3), "input")
        for index, (inputs, outputs) in enumerate(((3, 16), (16, 32))):
            weights = tf.constant(random.normal(0, 0.2, (3, 3, inputs, outputs)).astype("f"))
            range_ = tf.constant(-1.0), tf.constant(1.0)
            weights = tf.quantization.fake_quant_with_min_max_vars(weights, *range_, name=f"weights{index}")
            x = tf.nn.conv2d(x, weights, 2, "SAME", name=f"conv{index}")
            parameters = [tf.constant(random.uniform(0.5, 1.5, outputs).astype("f")) for _ in range(4)]
            x, *_ = v1.nn.fused_batch_norm(x, *parameters, is_training=False, name=f"norm{index}")
            x = tf.nn.relu6(x)
            x = tf.quantization.fake_quant_with_min_max_args(x, 0, 6, name=f"quantised{index}")
        logits = tf.reduce_mean(x, (1, 2)) @ tf.constant(random.normal(0, 0.3, (32, 10)).astype("f"))
        tf.nn.softmax(logits, name="probabilities")
        (folder / "tf1.pb").write_bytes(graph.as_graph_def().SerializeToString())
    return _deployment(folder, "tf1", "tensorflow", "tf1.pb", "input", (1, 32, 32, 3), "probabilities")


def torch_network(folder: Path) -> Path:
    """A residual network with a depthwise branch as .pt2."""
    import torch

    torch.manual_seed(SEED)
    torch.export.save(
        torch.export.export(_torch_residual().eval(), (torch.zeros(1, 3, 64, 64),)), folder / "residual.pt2"
    )
    return _deployment(folder, "residual", "pytorch", "residual.pt2", "image", (1, 3, 64, 64), "scores")


def _torch_residual() -> Any:
    import torch
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.wide = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
            self.deep = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.Hardswish())

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.deep(self.wide(x)))

    stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return nn.Sequential(stem, Block(16), Block(16), head)


def _branch(features: Any, filters: int, size: int, rate: int) -> Any:
    import tensorflow as tf

    layers = tf.keras.layers
    x = layers.Conv2D(filters, size, padding="same", dilation_rate=rate, use_bias=False)(features)
    return layers.ReLU()(layers.BatchNormalization()(x))


def _stir(model: Any) -> None:
    """Gives every batch normalisation seeded statistics, as training would have: zeros and ones test little."""
    import numpy as np

    random = np.random.default_rng(SEED)
    for layer in model.layers:
        if type(layer).__name__ == "BatchNormalization":
            layer.set_weights([_parameter(random, weight.path, weight.shape) for weight in layer.weights])


def _parameter(random: Any, path: str, shape: Sequence[int]) -> Any:
    low, high = (0.8, 1.2) if path.endswith(("gamma", "moving_variance")) else (-0.1, 0.1)
    return random.uniform(low, high, shape).astype("f")


def _deployment(
    folder: Path, name: str, platform: str, file: str, source: str, shape: Sequence[int], output: str
) -> Path:
    path = folder / f"{name}.yml"
    sizes = ",".join(map(str, shape))
    path.write_text(
        DEPLOYMENT.format(name=name, platform=platform, file=file, input=source, shape=sizes, output=output)
    )
    return path


NETWORKS: Mapping[str, Callable[[Path], Path]] = {
    **{name: lambda folder, name=name: keras_application(folder, name) for name in KERAS},  # type: ignore[misc]
    "deeplab": deeplab_head,
    "tf1": tf1_frozen,
    "residual": torch_network,
}


def main(arguments: Sequence[str]) -> int:
    folder, names = Path(arguments[0]), arguments[1:] or list(NETWORKS)
    folder.mkdir(parents=True, exist_ok=True)
    print("network              runtime  status        cosine    largest error  reason")
    for name in names:
        make_apart(f"NETWORKS[{name!r}]", folder)
        for line in _lines(folder / f"{name}.yml", name):
            print(line, flush=True)
    return 0


def make_apart(maker: str, folder: Path, *names: str) -> None:
    """Calls a function of this module in a process of its own: a framework keeps the memory and threads it used."""
    program = "import sys, pathlib; from benchmarks import framework_networks as networks; "
    program += f"networks.{maker}(pathlib.Path(sys.argv[1]), *sys.argv[2:])"
    subprocess.run([sys.executable, "-c", program, str(folder), *names], check=True, capture_output=True)


def _lines(deployment: Path, name: str) -> list[str]:
    try:
        rows = list(farm.run(deployment, farm.units(device=["host"]), rounds=1, validate=True))
    except FarmError as error:
        return [f"{name:20} {'':8} refused       {'':23} {error}"]
    return [
        f"{name:20} {row.runtime:8} {row.status.value:13} {_figure(row.cosine)}  {_figure(row.max_abs_error, '.2e')}"
        f"       {row.reason}"
        for row in rows
    ]


def _figure(value: float | None, form: str = ".6f") -> str:
    return f"{'-' if value is None else format(value, form):>8}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
