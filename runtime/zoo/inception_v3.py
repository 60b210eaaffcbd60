"""Inception v3: parallel branches with factorized convolutions.

Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", arXiv:1512.00567; channels of the branches
as in the authors' TensorFlow release. The auxiliary classifier, used in training only, is left out.
"""

import dataclasses

from runtime.zoo.network import LayerTensor, Network, Padding, scaled


@dataclasses.dataclass(frozen=True)
class _Layers:
    """Adds the network's only kind of convolution: with batch normalization and ReLU, channels scaled by the width."""

    net: Network
    width: float

    def conv(
        self,
        x: LayerTensor,
        name: str,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: Padding = "same",
    ) -> LayerTensor:
        y = self.net.conv(x, name, scaled(channels, self.width), kernel, stride=stride, padding=padding)
        return self.net.relu(self.net.batch_norm(y))

    def chain(self, x: LayerTensor, name: str, *layers: tuple[int, int | tuple[int, int]]) -> LayerTensor:
        """Adds convolutions of (channels, kernel) in a row, with stride 1 and padding that keeps the size."""
        for index, (channels, kernel) in enumerate(layers):
            x = self.conv(x, f"{name}_{index}", channels, kernel)
        return x

    def pooled(self, x: LayerTensor, name: str, channels: int) -> LayerTensor:
        """Adds the pooling branch: a 3 x 3 average, then a 1 x 1 convolution."""
        return self.conv(self.net.average_pool(x, f"{name}/pool", 3), f"{name}/pool_proj", channels, 1)


def assemble(net: Network, width: float, classes: int) -> None:
    """Adds all layers, from the image to the class probabilities."""
    layers = _Layers(net, width)
    x = _stem(layers)
    for name, pool_channels in (("mixed_5b", 32), ("mixed_5c", 64), ("mixed_5d", 64)):
        x = _mixed_35(layers, x, name, pool_channels)
    x = _reduce_to_17(layers, x, "mixed_6a")
    for name, channels in (("mixed_6b", 128), ("mixed_6c", 160), ("mixed_6d", 160), ("mixed_6e", 192)):
        x = _mixed_17(layers, x, name, channels)
    x = _reduce_to_8(layers, x, "mixed_7a")
    for name in ("mixed_7b", "mixed_7c"):
        x = _mixed_8(layers, x, name)
    x = net.flatten(net.global_average_pool(x))
    net.softmax(net.fully_connected(x, "logits", classes))


def _stem(layers: _Layers) -> LayerTensor:
    x = layers.conv(layers.net.input, "conv_1a", 32, 3, stride=2, padding="valid")
    x = layers.conv(x, "conv_2a", 32, 3, padding="valid")
    x = layers.conv(x, "conv_2b", 64, 3)
    x = layers.net.max_pool(x, "pool_3a", 3, 2)
    x = layers.conv(x, "conv_3b", 80, 1, padding="valid")
    x = layers.conv(x, "conv_4a", 192, 3, padding="valid")
    return layers.net.max_pool(x, "pool_5a", 3, 2)


def _mixed_35(layers: _Layers, x: LayerTensor, name: str, pool_channels: int) -> LayerTensor:
    """Adds GoogLeNet's module, on 35 x 35 pixels, with one branch of 5 x 5 and one of two 3 x 3."""
    branches = [
        layers.conv(x, f"{name}/1x1", 64, 1),
        layers.chain(x, f"{name}/5x5", (48, 1), (64, 5)),
        layers.chain(x, f"{name}/double3x3", (64, 1), (96, 3), (96, 3)),
        layers.pooled(x, name, pool_channels),
    ]
    return layers.net.concat(branches, name)


def _reduce_to_17(layers: _Layers, x: LayerTensor, name: str) -> LayerTensor:
    deep = layers.chain(x, f"{name}/double3x3", (64, 1), (96, 3))
    branches = [
        layers.conv(x, f"{name}/3x3", 384, 3, stride=2, padding="valid"),
        layers.conv(deep, f"{name}/double3x3_2", 96, 3, stride=2, padding="valid"),
        layers.net.max_pool(x, f"{name}/pool", 3, 2),
    ]
    return layers.net.concat(branches, name)


def _mixed_17(layers: _Layers, x: LayerTensor, name: str, c: int) -> LayerTensor:
    """Adds the module of the paper's figure 6, on 17 x 17 pixels, with 7 x 7 factorized to 1 x 7 and 7 x 1."""
    branches = [
        layers.conv(x, f"{name}/1x1", 192, 1),
        layers.chain(x, f"{name}/7x7", (c, 1), (c, (1, 7)), (192, (7, 1))),
        layers.chain(x, f"{name}/double7x7", (c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))),
        layers.pooled(x, name, 192),
    ]
    return layers.net.concat(branches, name)


def _reduce_to_8(layers: _Layers, x: LayerTensor, name: str) -> LayerTensor:
    small = layers.conv(x, f"{name}/3x3_0", 192, 1)
    large = layers.chain(x, f"{name}/7x7", (192, 1), (192, (1, 7)), (192, (7, 1)))
    branches = [
        layers.conv(small, f"{name}/3x3_1", 320, 3, stride=2, padding="valid"),
        layers.conv(large, f"{name}/7x7_3", 192, 3, stride=2, padding="valid"),
        layers.net.max_pool(x, f"{name}/pool", 3, 2),
    ]
    return layers.net.concat(branches, name)


def _mixed_8(layers: _Layers, x: LayerTensor, name: str) -> LayerTensor:
    """Adds the module of the paper's figure 7, on 8 x 8 pixels, with branches that end in a 1 x 3 beside a 3 x 1."""
    branches = [
        layers.conv(x, f"{name}/1x1", 320, 1),
        _split_3x3(layers, layers.conv(x, f"{name}/3x3_0", 384, 1), f"{name}/3x3"),
        _split_3x3(layers, layers.chain(x, f"{name}/double3x3", (448, 1), (384, 3)), f"{name}/double3x3"),
        layers.pooled(x, name, 192),
    ]
    return layers.net.concat(branches, name)


def _split_3x3(layers: _Layers, x: LayerTensor, name: str) -> LayerTensor:
    halves = [layers.conv(x, f"{name}_1x3", 384, (1, 3)), layers.conv(x, f"{name}_3x1", 384, (3, 1))]
    return layers.net.concat(halves, name)
