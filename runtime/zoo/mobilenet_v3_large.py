"""MobileNet v3, the large one: inverted residuals, some with squeeze and excitation, and hard swish.

Howard et al., "Searching for MobileNetV3", arXiv:1905.02244, table 1. Padding and 1001 classes as in the authors'
TensorFlow release; the last but one convolution does not become narrower than 1280 channels.
"""

from runtime.zoo.mobilenet_v2 import bottleneck
from runtime.zoo.network import LayerTensor, Network, scaled

# Window, channels within, output channels, squeeze and excitation, hard swish and stride of each row of table 1.
BLOCKS = [
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
]  # fmt: skip


def assemble(net: Network, width: float, classes: int) -> None:
    """Adds all layers, from the image to the class probabilities."""
    x = net.hard_swish(net.batch_norm(net.conv(net.input, "conv0", scaled(16, width, 8), 3, stride=2)))
    for index, (kernel, within, channels, squeezes, is_swish, stride) in enumerate(BLOCKS, start=1):
        x = bottleneck(
            net,
            x,
            f"block{index}",
            scaled(within, width, 8),
            scaled(channels, width, 8),
            stride=stride,
            kernel=kernel,
            activate=Network.hard_swish if is_swish else Network.relu,
            gate=_squeeze_and_excite if squeezes else None,
        )
    x = net.hard_swish(net.batch_norm(net.conv(x, "conv_last", 6 * x.channels, 1)))
    x = net.conv(net.global_average_pool(x), "features", scaled(1280, max(width, 1.0), 8), 1, bias=True)
    net.softmax(net.flatten(net.conv(net.hard_swish(x), "logits", classes, 1, bias=True)))


def _squeeze_and_excite(net: Network, x: LayerTensor, name: str) -> LayerTensor:
    pooled = net.global_average_pool(x, f"{name}/pool")
    squeezed = net.relu(net.conv(pooled, f"{name}/squeeze", scaled(x.channels // 4, 1, 8), 1, bias=True))
    gate = net.hard_sigmoid(net.conv(squeezed, f"{name}/excite", x.channels, 1, bias=True))
    return net.multiply(x, gate, f"{name}/gated")
