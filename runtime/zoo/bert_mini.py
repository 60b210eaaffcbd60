"""BERT-Mini: 4 blocks of 256 channels, which read 128 words and say which of two classes they are of.

Turc et al., "Well-Read Students Learn Better", arXiv:1908.08962, table 1; normalization stands behind each sum.
"""

from runtime.zoo.transformer import LOGIT_GAIN, SELECTIVE, Transformer, head_depth

BLOCKS, HEADS, DEPTH = 4, 4, 64
VOCABULARY, MOST_PLACES = 30522, 512
EPSILON = 1e-12


def assemble(net: Transformer, width: float, classes: int) -> None:
    """Adds all layers, from the words' numbers (1, size) to the class probabilities."""
    depth = head_depth(DEPTH, width)
    channels, places = HEADS * depth, net.size
    x = _embedded(net, channels)
    for index in range(BLOCKS):
        name = f"block{index}"
        x = net.op("Add", f"{name}/sum1", x, net.attention(x, f"{name}/attention", places, HEADS, depth))
        x = net.layer_norm(x, f"{name}/norm1", channels, EPSILON)
        x = net.op("Add", f"{name}/sum2", x, net.mlp(x, f"{name}/mlp", places, channels))
        x = net.layer_norm(x, f"{name}/norm2", channels, EPSILON)
    token = net.linear(net.first_place(x, "token"), "pooler", 1, channels, channels)
    pooled = net.op("Tanh", "pooled", token)
    net.softmax(net.linear(pooled, "logits", 1, channels, classes, gain=SELECTIVE * LOGIT_GAIN), classes)


def _embedded(net: Transformer, channels: int) -> str:
    """What words, places and the first kind of sentence add up to."""
    words = net.text(VOCABULARY, channels, net.size)
    kind = net.slice(net.parameter("kinds.weight", (2, channels)), "kind", 0, 1, axis=0)
    table = net.parameter("places.weight", (max(MOST_PLACES, net.size), channels))
    places = net.slice(table, "places", 0, net.size, axis=0)
    x = net.op("Add", "placed", net.op("Add", "kinds", words, kind), places)
    return net.layer_norm(x, "norm", channels, EPSILON)
