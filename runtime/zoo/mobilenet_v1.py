"""MobileNet v1: depthwise-separable convolutions.

Howard et al., "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications",
arXiv:1704.04861, table 1. Padding, ReLU6 and 1001 classes as in the authors' TensorFlow release.
"""

from runtime.zoo.network import LayerTensor, Network, scaled

# Output channels and stride of each depthwise-separable block.
BLOCKS = [
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
]  # fmt: skip


def assemble(net: Network, width: float, classes: int) -> None:
    """Adds all layers, from the image to the class probabilities."""
    x = net.conv(net.input, "conv0", scaled(32, width), 3, stride=2)
    x = net.relu6(net.batch_norm(x))
    for index, (channels, stride) in enumerate(BLOCKS, start=1):
        x = _separable(net, x, f"block{index}", scaled(channels, width), stride)
    x = net.flatten(net.global_average_pool(x))
    net.softmax(net.fully_connected(x, "logits", classes))


def _separable(net: Network, x: LayerTensor, name: str, channels: int, stride: int) -> LayerTensor:
    x = net.conv(x, f"{name}/depthwise", x.channels, 3, stride=stride, groups=x.channels)
    x = net.relu6(net.batch_norm(x))
    x = net.conv(x, f"{name}/pointwise", channels, 1)
    return net.relu6(net.batch_norm(x))
