"""What people should know about each section: how it was measured and what limits it. Written by hand."""

INTRODUCTION = """\
farm on this machine, side by side with ONNX Runtime on the same cores: fp32, batch 1, the zoo's models in full size.
Everything on this page comes from one run of"""

LATENCY = """\
All ways to run a model are loaded at the same time and run in turns (A B C, B C A, ...), each turn a warm-up and up to
ten rounds, so that what disturbs one disturbs all. ONNX Runtime has one thread a core and its own optimizations. A
ratio is that of the medians; its 95 % interval comes from drawing turns again. A round is timed from the input in
place to the output in place. A wrong output has no figure. *Aim* judges the best tuned way.

Nearly all the time is in convolutions (94 to 99 %). Depthwise convolutions, strided windows and layers with
few channels load more for each multiplication. Winograd needs 2.25 (tile 2) or 4 (tile 4) times fewer multiplications
for 3x3 convolutions of stride 1, but its transforms move memory."""

COLD_START = """\
A start is a whole process: `farmrt run` with an empty PoCL cache (`POCL_CACHE_DIR`) until the output is in a file.
The first column compares tuned starts with each other. ONNX Runtime's time is creating a session and its first run,
without starting a process.

Without compiled kernels the driver's compiler takes the time, which builds each kernel once for each local size; with
them, opening the driver and reading the weights."""

TUNING = """\
Each tuning starts with an empty build folder and an empty PoCL cache. Device seconds are what a level counts:
building candidates, running and checking them. Wall seconds are the whole command. `winograd auto` also chooses the
algorithm of each layer. *Gain* is the part of the default's time that is saved, with its interval; the defaults were
chosen on these drivers, so it is often near zero."""

LIGHT = """\
The nine networks of the onnx package's backend tests, their constant weights replaced by seeded random ones; measured
as above, without tuning."""
