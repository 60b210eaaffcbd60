"""ViT-Tiny: a vision transformer of 12 blocks and 192 channels on patches of 16 x 16 pixels.

Dosovitskiy et al., "An Image is Worth 16x16 Words", arXiv:2010.11929; its smallest size is that of Touvron et al.,
"Training data-efficient image transformers", arXiv:2012.12877, table 1.
"""

from runtime.zoo.network import INPUT
from runtime.zoo.transformer import LOGIT_GAIN, Transformer, head_depth

BLOCKS, HEADS, DEPTH, PATCH = 12, 3, 64, 16
EPSILON = 1e-6


def assemble(net: Transformer, width: float, classes: int) -> None:
    """Adds all layers, from the image to the class probabilities."""
    depth = head_depth(DEPTH, width)
    channels, places = HEADS * depth, (net.size // PATCH) ** 2 + 1
    token = net.parameter("class", (1, 1, channels), factor=0.1)
    if net.batch > 1:
        token = net.op("Expand", "classes", token, net.constant("batch", (net.batch, 1, 1)))
    x = net.op("Concat", "tokens", token, _patches(net, channels), axis=1)
    x = net.op("Add", "placed", x, net.parameter("places", (1, places, channels), factor=0.2))
    for index in range(BLOCKS):
        name = f"block{index}"
        attended = net.layer_norm(x, f"{name}/norm1", channels, EPSILON)
        x = net.op("Add", f"{name}/sum1", x, net.attention(attended, f"{name}/attention", places, HEADS, depth))
        normed = net.layer_norm(x, f"{name}/norm2", channels, EPSILON)
        x = net.op("Add", f"{name}/sum2", x, net.mlp(normed, f"{name}/mlp", places, channels))
    token = net.first_place(net.layer_norm(x, "norm", channels, EPSILON), "token")
    net.softmax(net.linear(token, "logits", 1, channels, classes, gain=LOGIT_GAIN), classes)


def _patches(net: Transformer, channels: int) -> str:
    """(batch, patches, channels) of the images."""
    inputs, patches = 3 * PATCH * PATCH, (net.size // PATCH) ** 2
    net.inputs[INPUT] = (net.batch, 3, net.size, net.size)
    net.macs += patches * inputs * channels
    weights = net.parameter("patches.weight", (channels, 3, PATCH, PATCH), factor=3 / inputs**0.5)
    image = net.op(
        "Conv", "patches", INPUT, weights, net.parameter("patches.bias", (channels,), factor=0.1), strides=[PATCH] * 2
    )
    return net.op("Transpose", "rows", net.reshape(image, "columns", net.batch, channels, patches), perm=[0, 2, 1])
