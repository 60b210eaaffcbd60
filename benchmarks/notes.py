"""What people should know about each section: how it was measured and what limits it. Written by hand."""

INTRODUCTION = """\
farm on this machine, side by side with ONNX Runtime on the same cores: fp32, batch 1, the zoo's models in full size.
From one run of"""

LATENCY = """\
All ways to run a model are loaded at the same time and run in turns (A B C, B C A, ...), each turn a warm-up and up to
ten rounds, from the input in place to the output in place. ONNX Runtime has one thread a core and its own
optimizations. A ratio is that of the medians, with the 95 % interval of turns drawn again; milliseconds are a median
with quartiles. *Aim* judges the best tuned way.

Nearly all the time is in convolutions (94 to 99 %). Winograd needs 2.25 (tile 2) or 4 (tile 4) times fewer
multiplications for 3x3 convolutions of stride 1, but its transforms move memory."""

COLD_START = """\
A start is a whole process, `farmrt run` with an empty PoCL cache (`POCL_CACHE_DIR`), until the output is in a file. The
driver's compiler takes most of it. The first column compares tuned starts. ONNX Runtime's time is a session and its
first run, without starting a process."""

TUNING = """\
Each tuning starts with an empty build folder and an empty PoCL cache. Device seconds are what a level counts: building
candidates, running and checking them. Wall seconds are the whole command. *Gain* is the part of the default's time that
is saved, often near zero, since the defaults were chosen on these drivers."""

LIGHT = """\
The nine networks of the onnx package's backend tests, their constant weights replaced by seeded random ones; measured
as above, without tuning."""
