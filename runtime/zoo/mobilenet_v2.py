"""MobileNet v2: inverted residuals with linear bottlenecks.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", arXiv:1801.04381, table 2. Padding and 1001
classes as in the authors' TensorFlow release; the last convolution does not become narrower than 1280 channels.
"""

from collections.abc import Callable

from runtime.zoo.network import LayerTensor, Network, scaled

Activation = Callable[[Network, LayerTensor], LayerTensor]
Gate = Callable[[Network, LayerTensor, str], LayerTensor]

# Expansion, output channels, repeats and first stride of each row of table 2.
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def assemble(net: Network, width: float, classes: int) -> None:
    """Adds all layers, from the image to the class probabilities."""
    x = net.conv(net.input, "conv0", scaled(32, width, 8), 3, stride=2)
    x = net.relu6(net.batch_norm(x))
    index = 0
    for expansion, channels, repeats, first_stride in STAGES:
        for repeat in range(repeats):
            index += 1
            stride = first_stride if repeat == 0 else 1
            x = bottleneck(net, x, f"block{index}", x.channels * expansion, scaled(channels, width, 8), stride=stride)
    x = net.conv(x, "conv_last", scaled(1280, max(width, 1.0), 8), 1)
    x = net.global_average_pool(net.relu6(net.batch_norm(x)))
    net.softmax(net.flatten(net.conv(x, "logits", classes, 1, bias=True)))


def bottleneck(
    net: Network,
    x: LayerTensor,
    name: str,
    wide: int,
    channels: int,
    *,
    stride: int,
    kernel: int = 3,
    activate: Activation = Network.relu6,
    gate: Gate | None = None,
) -> LayerTensor:
    """Adds an inverted residual of `wide` channels within; `gate` weights what its depthwise convolution gives."""
    deep = x
    if wide != x.channels:
        deep = activate(net, net.batch_norm(net.conv(x, f"{name}/expand", wide, 1)))
    deep = net.conv(deep, f"{name}/depthwise", wide, kernel, stride=stride, groups=wide)
    deep = activate(net, net.batch_norm(deep))
    if gate is not None:
        deep = gate(net, deep, name)
    narrow = net.batch_norm(net.conv(deep, f"{name}/project", channels, 1))
    return net.add(narrow, x, f"{name}/add") if narrow[1:] == x[1:] else narrow
