"""EfficientNet-Lite0: EfficientNet-B0 without squeeze and excitation, and with ReLU6.

Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", arXiv:1905.11946, table 1, as
the authors' TensorFlow release of the Lite models changes it. Padding and 1000 classes as there.
"""

from runtime.zoo.mobilenet_v2 import bottleneck
from runtime.zoo.network import Network, scaled

# Window, expansion, output channels, repeats and first stride of each row of table 1.
STAGES = [
    (3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 3, 2),
    (5, 6, 112, 3, 1), (5, 6, 192, 4, 2), (3, 6, 320, 1, 1),
]  # fmt: skip


def assemble(net: Network, width: float, classes: int) -> None:
    """Adds all layers, from the image to the class probabilities."""
    x = net.relu6(net.batch_norm(net.conv(net.input, "conv0", scaled(32, width, 8), 3, stride=2)))
    index = 0
    for kernel, expansion, channels, repeats, first_stride in STAGES:
        for repeat in range(repeats):
            index += 1
            wide, stride = x.channels * expansion, first_stride if repeat == 0 else 1
            x = bottleneck(net, x, f"block{index}", wide, scaled(channels, width, 8), stride=stride, kernel=kernel)
    x = net.relu6(net.batch_norm(net.conv(x, "conv_last", scaled(1280, width, 8), 1)))
    net.softmax(net.fully_connected(net.flatten(net.global_average_pool(x)), "logits", classes))
