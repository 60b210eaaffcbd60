"""Writes small models with seeded weights: `python -m tests.frameworks.small_models FOLDER FRAMEWORK`.

In a process of its own: a framework that was imported here would stay, with its memory and its warnings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SEED = 5


def write_tensorflow(folder: Path) -> None:
    """One network in every form, as float and as integers, and models that must be refused."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(SEED)
    model = _keras_network(tf)
    model.save(folder / "net.keras")
    model.save(folder / "net.h5")
    model.save_weights(folder / "net.weights.h5")
    model.export(folder / "saved", verbose=False)
    (folder / "frozen.pb").write_bytes(_frozen(tf, model))
    (folder / "fake_quant.pb").write_bytes(_quantisation_aware(tf))
    (folder / "fake_quants.pb").write_bytes(_fake_quants(tf))
    _write_functions_and_layers(tf, folder)
    variables = tf.Graph()
    with variables.as_default():
        x = tf.compat.v1.placeholder(tf.float32, (1, 4), "x")
        tf.matmul(x, tf.compat.v1.get_variable("w", (4, 4), use_resource=False), name="y")
    (folder / "unfrozen.pb").write_bytes(variables.as_graph_def().SerializeToString())
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    (folder / "net.tflite").write_bytes(converter.convert())
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    (folder / "dynamic_range.tflite").write_bytes(converter.convert())
    converter.representative_dataset = _samples
    converter.target_spec.supported_ops = [tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]
    (folder / "sixteen_bits.tflite").write_bytes(converter.convert())
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    (folder / "integer.tflite").write_bytes(converter.convert())
    (folder / "operators.tflite").write_bytes(_integer_operators(tf))
    image = tf.keras.Input((4,), name="image")
    coded = tf.keras.Model(image, tf.keras.layers.Lambda(lambda x: 2 * x, name="twice")(image))
    coded.save(folder / "lambda.keras")
    coded.save(folder / "lambda.h5")
    reading = tf.Graph()
    with reading.as_default():
        name = tf.compat.v1.placeholder(tf.string, (), "name")
        tf.strings.length(tf.io.read_file(name), name="length")
    (folder / "reading.pb").write_bytes(reading.as_graph_def().SerializeToString())


def _write_functions_and_layers(tf: Any, folder: Path) -> None:
    """What tf2onnx leaves (Erfc, a whole GELU), and layers over time, as SavedModel, .keras and .tflite."""
    layers = tf.keras.layers
    sequence = tf.keras.Input((6, 4), name="image", batch_size=2)
    networks = {
        "erfc": lambda x: tf.math.erfc(x),
        "gelu": lambda x: tf.nn.gelu(x, approximate=False),
        "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
    }
    for name, function in networks.items():
        dense = layers.Dense(5, activation=function, name="scores")(sequence)
        _write_forms(tf, folder, name, tf.keras.Model(sequence, dense))
    over_time = {
        "lstm": layers.LSTM(5, name="scores"),
        "gru": layers.GRU(5, return_sequences=True, name="scores"),
        "gru_reset_before": layers.GRU(5, reset_after=False, name="scores"),
        "bidirectional": layers.Bidirectional(layers.LSTM(5, return_sequences=True), name="scores"),
        "simple": layers.SimpleRNN(5, name="scores"),
    }
    for name, layer in over_time.items():
        model = tf.keras.Model(sequence, layer(sequence))
        model.save(folder / f"{name}.keras")
        _write_forms(tf, folder, name, model)


def _write_forms(tf: Any, folder: Path, name: str, model: Any) -> None:
    model.export(folder / name, verbose=False)
    if name == "erfc":
        return  # LiteRT has none
    (folder / f"{name}.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())


def write_pytorch(folder: Path) -> None:
    """net.pt2 with a free batch, the same as TorchScript, and as pickles of torch.save."""
    import torch

    torch.manual_seed(SEED)
    network, image = _torch_network(torch).eval(), torch.zeros(2, 3, 16, 16)
    batch = torch.export.Dim("N", max=64)
    exported = torch.export.export(network, (image,), dynamic_shapes=({0: batch},))
    torch.export.save(exported, folder / "net.pt2")
    quantised = torch.export.export(_torch_quantised(torch), (torch.zeros(2, 3, 16, 16),))
    torch.export.save(quantised, folder / "quantised.pt2")
    torch.export.save(_torch_by_pt2e(torch, image), folder / "pt2e.pt2")
    for name, steps in BAD_STEPS.items():
        bad = _torch_rounding(torch, *steps)
        torch.export.save(torch.export.export(bad, (image,)), folder / f"{name}.pt2")
    torch.jit.trace(network, image).save(folder / "net.ts")
    torch.save(network, folder / "pickle.pt")
    torch.save(network.state_dict(), folder / "state.pt")


def _keras_network(tf: Any) -> Any:
    layers = tf.keras.layers
    image = tf.keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="conv")(image)
    x = layers.ReLU(6.0, name="act")(layers.BatchNormalization(name="norm")(x))
    x = layers.DepthwiseConv2D(3, padding="same", name="deep")(x)
    x = layers.GlobalAveragePooling2D(name="mean")(x)
    model = tf.keras.Model(image, layers.Dense(5, activation="softmax", name="scores")(x))
    random = np.random.default_rng(SEED)
    model.get_layer("norm").set_weights([random.uniform(0.5, 1.5, 8).astype("f") for _ in range(4)])
    return model


def _frozen(tf: Any, model: Any) -> bytes:
    """The graph as TensorFlow 1's tools wrote it: weights as constants, an input called `image`."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    spec = tf.TensorSpec((None, 16, 16, 3), tf.float32, "image")
    function = tf.function(lambda image: tf.identity(model(image), "scores")).get_concrete_function(spec)
    content: bytes = convert_variables_to_constants_v2(function).graph.as_graph_def().SerializeToString()
    return content


def _quantisation_aware(tf: Any) -> bytes:
    """A graph as TensorFlow 1 froze it: fused batch norms, and FakeQuant nodes whose ranges are tensors."""
    random = np.random.default_rng(SEED)
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (None, 16, 16, 3), "image")
        x = tf.quantization.fake_quant_with_min_max_vars(x, tf.constant(-1.0), tf.constant(1.0), name="quantised")
        for inputs, outputs in ((3, 8), (8, 5)):
            weights = tf.constant(random.normal(0, 0.2, (3, 3, inputs, outputs)).astype("f"))
            range_ = tf.constant(-0.7), tf.constant(0.6)
            weights = tf.quantization.fake_quant_with_min_max_vars(weights, *range_, narrow_range=True)
            x = tf.nn.conv2d(x, weights, 2, "SAME")
            parameters = [tf.constant(random.uniform(0.5, 1.5, outputs).astype("f")) for _ in range(4)]
            x, *_ = tf.compat.v1.nn.fused_batch_norm(x, *parameters, is_training=False)
            x = tf.quantization.fake_quant_with_min_max_vars(tf.nn.relu6(x), tf.constant(0.0), tf.constant(6.0))
        tf.nn.softmax(tf.reduce_mean(x, (1, 2)), name="scores")
        content: bytes = graph.as_graph_def().SerializeToString()
    return content


def _integer_operators(tf: Any) -> bytes:
    """The operators of mobile networks in integers, each in a branch of its own, by the name of its output."""
    layers = tf.keras.layers
    image = tf.keras.Input((8, 8, 16), batch_size=1, name="image")
    narrow = layers.Conv2D(16, 1, name="base")(image)
    branches = {
        "conv": layers.Conv2D(8, 3, strides=2, padding="same")(image),
        "conv_relu6": layers.ReLU(6.0)(layers.Conv2D(8, 1)(image)),
        "depthwise": layers.DepthwiseConv2D(3, padding="same")(image),
        "dense": layers.Dense(7)(layers.Flatten()(image)),
        "rows": layers.Dense(24, activation="relu")(image),
        "grouped": layers.Conv2D(16, 3, groups=2)(image),
        "add": layers.Add()([image, narrow]),
        "sub": layers.Subtract()([image, narrow]),
        "add_relu": layers.ReLU()(layers.Add()([image, layers.Conv2D(16, 1)(image)])),
        "mul": layers.Multiply()([image, narrow]),
        "gate": layers.Multiply()([image, layers.GlobalAveragePooling2D(keepdims=True)(narrow)]),
        "average": layers.AveragePooling2D(3, strides=2, padding="same")(image),
        "largest": layers.MaxPooling2D(2)(image),
        "mean": layers.GlobalAveragePooling2D()(image),
        "mean_of_49": layers.GlobalAveragePooling2D(keepdims=True)(layers.Cropping2D(((1, 0), (0, 1)))(image)),
        "joined": layers.Concatenate()([image, narrow]),
        "joined_steps": layers.Concatenate()([narrow, layers.Conv2D(8, 1)(image)]),
        "padded": layers.ZeroPadding2D(1)(image),
        "sigmoid": layers.Activation("sigmoid")(image),
        "tanh": layers.Activation("tanh")(image),
        "hard_swish": layers.Activation("hard_swish")(image),
        "leaky": layers.LeakyReLU(0.1)(image),
        "nearest": layers.UpSampling2D(2)(image),
        "bilinear": layers.UpSampling2D(2, interpolation="bilinear")(image),
        "softmax": layers.Softmax()(layers.Flatten()(layers.Conv2D(1, 1)(image))),
        "resized": layers.Conv2D(8, 1)(layers.UpSampling2D(2, interpolation="bilinear")(narrow)),
    }
    random = np.random.default_rng(SEED)
    converter = tf.lite.TFLiteConverter.from_keras_model(tf.keras.Model(image, branches))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([random.normal(0, 1, (1, 8, 8, 16)).astype("f")] for _ in range(16))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    content: bytes = converter.convert()
    return content


def _fake_quants(tf: Any) -> bytes:
    """Each of TensorFlow's ways to round to steps, by the name of its output."""
    args, by_tensors = tf.quantization.fake_quant_with_min_max_args, tf.quantization.fake_quant_with_min_max_vars
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (None, 16, 16, 3), "image")
        ends = tf.constant([-1.0, -0.9, -0.1]), tf.constant([0.3, 0.9, 0.7])
        tf.quantization.fake_quant_with_min_max_vars_per_channel(x, *ends, name="per_channel")
        args(x, -1.1, 0.9, narrow_range=True, name="narrow")
        by_tensors(x, -1.1, 0.9, num_bits=4, name="four_bits")
        by_tensors(x, -1.1, 0.9, num_bits=16, name="sixteen_bits")
        by_tensors(x, 0.2, 0.9, name="above_zero")
        by_tensors(x, tf.reduce_min(x), 0.9, name="computed")
        by_tensors(x, 0.9, 0.9, name="empty")
        content: bytes = graph.as_graph_def().SerializeToString()
    return content


def _samples() -> Iterator[list[np.ndarray]]:
    random = np.random.default_rng(SEED)
    return ([random.uniform(-1, 1, (1, 16, 16, 3)).astype("f")] for _ in range(16))


def _torch_network(torch: Any) -> Any:
    nn = torch.nn
    convolution = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU6())
    return nn.Sequential(convolution, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5), nn.Softmax(1))


def _torch_by_pt2e(torch: Any, image: Any) -> Any:
    """A network that torchao's PT2E quantised by seeded samples, with its quantiser for CPUs."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as own

    nn = torch.nn
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5), nn.Softmax(1)
    layers = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8), *head
    quantiser = own.X86InductorQuantizer().set_global(own.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(nn.Sequential(*layers).eval(), (image,)).module(), quantiser)
    for _ in range(4):
        prepared(2 * torch.rand(image.shape) - 1)
    return torch.export.export(convert_pt2e(prepared), (image,))


# Scale, zero point, and whether they are tensors of channels.
BAD_STEPS = {"scale_0": (0.0, 0, False), "zero_300": (0.1, 300, False), "nan_channel": (float("nan"), 0, True)}


def _torch_rounding(torch: Any, scale: float, zero: int, by_channels: bool) -> Any:
    """Rounds an image of three channels there and back."""
    own = torch.ops.quantized_decomposed

    class Rounding(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scales", torch.full((3,), scale))
            self.register_buffer("zeros", torch.full((3,), zero))

        def forward(self, x: Any) -> Any:
            if by_channels:
                steps = (self.scales, self.zeros, 1, -128, 127, torch.int8)
                return own.dequantize_per_channel.default(own.quantize_per_channel.default(x, *steps), *steps)
            steps = (scale, zero, -128, 127, torch.int8)
            return own.dequantize_per_tensor.default(own.quantize_per_tensor.default(x, *steps), *steps)

    return Rounding().eval()


def _torch_quantised(torch: Any) -> Any:
    """A network as PT2E leaves it: static and dynamic steps, per tensor and per channel, of 8 and 16 bits."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - declares the operators

    own = torch.ops.quantized_decomposed

    class Quantised(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            filters = torch.randint(-127, 128, (8, 3, 3, 3), dtype=torch.int8)
            for name, value in {
                "filters": filters,
                "scales": torch.rand(8) / 500,
                "zeros": torch.zeros(8).int(),
            }.items():
                self.register_buffer(name, value)

        def forward(self, x: Any) -> Any:
            whole = (0.0079, 3, -128, 127, torch.int8)
            x = own.dequantize_per_tensor.default(own.quantize_per_tensor.default(x, *whole), *whole)
            channels = (self.scales, self.zeros, 0, -127, 127, torch.int8)
            x = torch.relu(torch.conv2d(x, own.dequantize_per_channel.default(self.filters, *channels), stride=2))
            narrow = (0.02, 0, 0, 100, torch.uint8)
            x = own.dequantize_per_tensor.default(own.quantize_per_tensor.default(x, *narrow), *narrow)
            fine = (0.0001, -9, -32768, 32767, torch.int16)
            x = own.dequantize_per_tensor.default(own.quantize_per_tensor.default(x, *fine), *fine)
            again = (self.scales * 10, self.zeros, 1, -127, 127, torch.int8)
            x = own.dequantize_per_channel.default(own.quantize_per_channel.default(x, *again), *again)
            found = own.choose_qparams.tensor(x, -128, 127, 1e-7, torch.int8)
            limits = (*found, -128, 127, torch.int8)
            return own.dequantize_per_tensor.tensor(own.quantize_per_tensor.tensor(x, *limits), *limits)

    return Quantised().eval()


WRITERS: dict[str, Callable[[Path], None]] = {"tensorflow": write_tensorflow, "torch": write_pytorch}

if __name__ == "__main__":
    WRITERS[sys.argv[2]](Path(sys.argv[1]))
