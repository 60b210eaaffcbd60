"""A small LLaMA, which reads a prompt (prefill) or one word after those of a cache (decode), and says what follows.

Touvron et al., "LLaMA", arXiv:2302.13971 (RMS normalization, SwiGLU, rotary positions), and "Llama 2",
arXiv:2307.09288 (four heads of queries share one of keys and values): 8 blocks of 512 channels, 4096 words. The output
`prob` (1, classes) is of the word behind the last. `keys.0`, `values.0` and so on (1, places, 2 heads * 64) are what
the caller keeps of the words read; decoding is given them for `size` places as `past_keys.0`, `past_values.0` and on.
"""

from collections.abc import Callable

import numpy as np

from runtime.zoo.network import scaled
from runtime.zoo.transformer import LOGIT_GAIN, SELECTIVE, Transformer, head_depth

BLOCKS, HEADS, SHARED_HEADS, DEPTH, WIDE = 8, 8, 2, 64, 1376
ROTARY_BASE = 10000.0


def assembler(decodes: bool) -> Callable[[Transformer, float, int], None]:
    """What adds all layers, from the words' numbers to the probabilities of the next."""

    def assemble(net: Transformer, width: float, classes: int) -> None:
        depth = head_depth(DEPTH, width)
        channels, wide = HEADS * depth, scaled(WIDE, width, 8)
        places, past = (1, net.size) if decodes else (net.size, 0)
        x = net.text(classes, channels, places)
        _rotary_constants(net, past, places, depth)
        for index in range(BLOCKS):
            name = f"block{index}"
            attended = net.rms_norm(x, f"{name}/norm1", channels)
            x = net.op("Add", f"{name}/sum1", x, _attention(net, attended, index, (places, past, depth)))
            normed = net.rms_norm(x, f"{name}/norm2", channels)
            x = net.op("Add", f"{name}/sum2", x, _gated(net, normed, f"{name}/mlp", (places, channels, wide)))
        last = net.op("Gather", "token", net.rms_norm(x, "norm", channels), net.constant("end", places - 1), axis=1)
        net.softmax(net.linear(last, "logits", 1, channels, classes, bias=False, gain=LOGIT_GAIN), classes)

    return assemble


def _attention(net: Transformer, x: str, index: int, extents: tuple[int, int, int]) -> str:
    """Attention of the places to themselves and what was before."""
    places, past, depth = extents
    name, channels, shared = f"block{index}/attention", HEADS * depth, SHARED_HEADS * depth
    q = net.linear(x, f"{name}/query", places, channels, channels, bias=False, gain=SELECTIVE)
    k = net.linear(x, f"{name}/key", places, channels, shared, bias=False, gain=SELECTIVE)
    v = net.linear(x, f"values.{index}", places, channels, shared, bias=False)
    q = _rotated(net, net.split_heads(q, f"{q}/heads", HEADS, depth), f"{q}/rotated", depth)
    k = _rotated(net, net.reshape(k, f"{k}/heads", net.batch, -1, SHARED_HEADS, depth), f"{k}/rotated", depth, "places")
    k = net.reshape(k, f"keys.{index}", net.batch, -1, shared)
    net.outputs |= dict.fromkeys((k, v), (net.batch, places, shared))
    parts = (_shared(net, _with_past(net, part, past, shared), f"{name}/{part}", depth) for part in (k, v))
    mask = "" if places == 1 else net.constant("mask", np.triu(np.full((places, places), -1e38), 1))
    joined = net.attend((q, *parts), f"{name}/joined", (HEADS, places, past + places, depth), mask)
    return net.linear(joined, f"{name}/output", places, channels, channels, bias=False)


def _with_past(net: Transformer, x: str, past: int, width: int) -> str:
    """What the cache has, and x behind it."""
    if not past:
        return x
    net.inputs[f"past_{x}"] = (net.batch, past, width)
    return net.op("Concat", f"all_{x}", f"past_{x}", x, axis=1)


def _shared(net: Transformer, x: str, name: str, depth: int) -> str:
    """Every head of (batch, places, heads * depth) as often as heads of queries share it."""
    group = HEADS // SHARED_HEADS
    heads = net.split_heads(x, f"{name}/heads", SHARED_HEADS, depth)
    single = net.reshape(heads, f"{name}/single", net.batch, SHARED_HEADS, 1, -1, depth)
    repeated = net.op("Expand", f"{name}/repeated", single, net.constant("group", (1, 1, group, 1, 1)))
    return net.reshape(repeated, f"{name}/shared", net.batch, HEADS, -1, depth)


def _rotary_constants(net: Transformer, first: int, places: int, depth: int) -> None:
    """Cosines and sines of the places' angles, for heads behind places and before them."""
    angles = np.arange(first, first + places)[:, None] * ROTARY_BASE ** (-np.arange(0, depth, 2) / depth)
    for name, values in (("cos", np.cos(angles)), ("sin", np.sin(angles))):
        both = np.concatenate([values, values], axis=1)
        net.constant(f"heads.{name}", both[None, None])
        net.constant(f"places.{name}", both[None, :, None])


def _rotated(net: Transformer, x: str, name: str, depth: int, before: str = "heads") -> str:
    """x cos + (x with its halves exchanged, the first negative) sin."""
    low = net.slice(x, f"{name}/low", 0, depth // 2, axis=3)
    high = net.slice(x, f"{name}/high", depth // 2, depth, axis=3)
    other = net.op("Concat", f"{name}/exchanged", net.op("Neg", f"{name}/negative", high), low, axis=3)
    parts = (
        net.op("Mul", f"{name}/{part}", tensor, f"{before}.{part}") for part, tensor in (("cos", x), ("sin", other))
    )
    return net.op("Add", name, *parts)


def _gated(net: Transformer, x: str, name: str, extents: tuple[int, int, int]) -> str:
    """SwiGLU: the layer of swish(gate(x)) * up(x)."""
    places, channels, wide = extents
    gate = net.linear(x, f"{name}/gate", places, channels, wide, bias=False)
    swish = net.op("Mul", f"{name}/swish", gate, net.op("Sigmoid", f"{name}/sigmoid", gate))
    up = net.linear(x, f"{name}/up", places, channels, wide, bias=False)
    return net.linear(net.op("Mul", f"{name}/gated", swish, up), f"{name}/down", places, wide, channels, bias=False)
