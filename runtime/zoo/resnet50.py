"""ResNet-50: bottleneck blocks with shortcut connections.

He et al., "Deep Residual Learning for Image Recognition", arXiv:1512.03385, table 1. As in the authors' release, a
block halves the size in its first 1 x 1 convolution (not in the 3 x 3, as later variants do) and the pool rounds up.
"""

from runtime.zoo.network import LayerTensor, Network, scaled

# Channels inside the blocks, number of blocks and first stride of each stage.
STAGES = {"conv2": (64, 3, 1), "conv3": (128, 4, 2), "conv4": (256, 6, 2), "conv5": (512, 3, 2)}
EXPANSION = 4


def assemble(net: Network, width: float, classes: int) -> None:
    """Adds all layers, from the image to the class probabilities."""
    x = _conv_bn(net, net.input, "conv1", scaled(64, width), 7, stride=2, padding=3)
    x = net.max_pool(net.relu(x), "pool1", 3, 2, ceil=True)
    for stage, (channels, blocks, first_stride) in STAGES.items():
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            x = _bottleneck(net, x, f"{stage}_{block + 1}", scaled(channels, width), stride, project=block == 0)
    x = net.flatten(net.global_average_pool(x))
    net.softmax(net.fully_connected(x, "logits", classes))


def _bottleneck(net: Network, x: LayerTensor, name: str, channels: int, stride: int, *, project: bool) -> LayerTensor:
    y = net.relu(_conv_bn(net, x, f"{name}/reduce", channels, 1, stride=stride))
    y = net.relu(_conv_bn(net, y, f"{name}/conv", channels, 3, padding=1))
    y = _conv_bn(net, y, f"{name}/expand", channels * EXPANSION, 1)
    shortcut = _conv_bn(net, x, f"{name}/shortcut", channels * EXPANSION, 1, stride=stride) if project else x
    return net.relu(net.add(y, shortcut, f"{name}/add"))


def _conv_bn(
    net: Network, x: LayerTensor, name: str, channels: int, kernel: int, *, stride: int = 1, padding: int = 0
) -> LayerTensor:
    return net.batch_norm(net.conv(x, name, channels, kernel, stride=stride, padding=padding), epsilon=1e-5)
