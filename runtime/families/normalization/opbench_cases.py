"""Typical sizes of normalizations, for `farm opbench`."""

from runtime.operators.case import IMAGE, sized

OPBENCH_CASES = (
    sized("LayerNormalization", (1, 197, 192), weights=((192,), (192,)), axes=(2,), epsilon=1e-6, centered=True),
    sized(
        "LayerNormalization", (1, 128, 512), detail="rms", weights=((512,),), axes=(2,), epsilon=1e-5, centered=False
    ),
    sized("LayerNormalization", (1, 96, 56, 56), weights=((96,), (96,)), axes=(1,), epsilon=1e-6, centered=True),
    sized("GroupNormalization", IMAGE, detail="32", weights=((64,), (64,)), groups=32, epsilon=1e-5),
    sized("GroupNormalization", IMAGE, detail="8", weights=((64,), (64,)), groups=8, epsilon=1e-5),
    sized("GroupNormalization", IMAGE, detail="64", weights=((64,), (64,)), groups=64, epsilon=1e-5),
    sized("BatchNormalization", IMAGE, weights=((64,), (64,)), activation="relu"),
    sized("LRN", (1, 96, 27, 27), detail="5", alpha=1e-4, beta=0.75, bias=1.0, size=5),
    sized("Softmax", (1, 1001), axis=1),
    sized("Softmax", (1, 21, 65, 65), axis=1),
)
