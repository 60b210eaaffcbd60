"""SqueezeNet v1.1: fire modules, no batch normalization, no fully connected layer.

Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model size",
arXiv:1602.07360; filters and positions of the pools as in the authors' release v1.1 (Caffe: 227 x 227, ceiling pools).
"""

from runtime.zoo.network import LayerTensor, Network, scaled

# Channels of the squeeze layer and of each of the two expand layers.
FIRES = {2: (16, 64), 3: (16, 64), 4: (32, 128), 5: (32, 128), 6: (48, 192), 7: (48, 192), 8: (64, 256), 9: (64, 256)}
POOLS_BEFORE = {2: "pool1", 4: "pool3", 6: "pool5"}


def assemble(net: Network, width: float, classes: int) -> None:
    """Adds all layers, from the image to the class probabilities."""
    x = net.relu(net.conv(net.input, "conv1", scaled(64, width), 3, stride=2, padding="valid", bias=True))
    for index, (squeeze, expand) in FIRES.items():
        if index in POOLS_BEFORE:
            x = net.max_pool(x, POOLS_BEFORE[index], 3, 2, ceil=True)
        x = _fire(net, x, f"fire{index}", scaled(squeeze, width), scaled(expand, width))
    x = net.relu(net.conv(x, "conv10", classes, 1, bias=True))
    net.softmax(net.flatten(net.global_average_pool(x)))


def _fire(net: Network, x: LayerTensor, name: str, squeeze: int, expand: int) -> LayerTensor:
    x = net.relu(net.conv(x, f"{name}/squeeze1x1", squeeze, 1, bias=True))
    small = net.relu(net.conv(x, f"{name}/expand1x1", expand, 1, bias=True))
    large = net.relu(net.conv(x, f"{name}/expand3x3", expand, 3, bias=True))
    return net.concat([small, large], f"{name}/concat")
