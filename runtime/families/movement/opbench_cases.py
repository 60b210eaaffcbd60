"""Typical sizes of movements, for `farm opbench`."""

from runtime.operators.case import IMAGE, sized

OPBENCH_CASES = (
    sized("Transpose", IMAGE, detail="0231", perm=(0, 2, 3, 1)),
    sized("Concat", IMAGE, IMAGE, axis=1),
    sized("Slice", IMAGE, detail="1-55", starts=(1, 1), ends=(55, 55), axes=(2, 3), steps=(1, 1)),
    sized("Pad", IMAGE, detail="1", pads=(0, 0, 1, 1, 0, 0, 1, 1), value=0.0, mode="constant"),
    sized("ChannelShuffle", (1, 240, 28, 28), detail="3", group=3),
)
