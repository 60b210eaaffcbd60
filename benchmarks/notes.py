"""What people should know about each section: how it was measured and what limits it. Written by hand."""

INTRODUCTION = """\
farm on this machine, side by side with ONNX Runtime on the same cores: fp32, batch 1, the zoo's models in full size.
Everything on this page comes from one run of"""

LATENCY = """\
All ways to run a model are loaded at the same time, farmrt in a process for each, ONNX Runtime in the process that
drives them with one thread a core and its own optimizations. They run in turns (A B C, B C A, ...), each turn a
warm-up and up to ten rounds, so that what disturbs one disturbs all. A ratio is that of the medians; its 95 %
interval comes from drawing turns again. A round begins with the input in place and ends with the output in place, on
both sides. Outputs are compared with ONNX Runtime's in the same run, and a wrong one has no figure. *Aim* judges the
best tuned way.

What limits it: nearly all the time is in convolutions (the shares are below), so a model is as fast as their
register-tiled product. It is near the cores' peak where channels are many. Depthwise convolutions, strided windows
and layers with few channels load more for each multiplication and stay below. On a CPU with
AVX-512, Debian's driver compiles for 512-bit registers and PyPI's, with its older LLVM, for 256-bit ones; each has
defaults of its own. Winograd needs 2.25 (tile 2) or 4 (tile 4) times fewer multiplications for 3x3 convolutions of
stride 1, but its transforms move memory, so it gains less than that."""

COLD_START = """\
A start is a whole process: `farmrt run` with an empty PoCL cache (`POCL_CACHE_DIR`) until the output is in a file;
what it reads is in the page cache. The first column compares tuned starts with each other: both run the same
launches. ONNX Runtime's time is creating a session and its first run, without starting a process.

What limits it: without compiled kernels nearly all the time is the driver's compiler, which builds each kernel once
for each local size that it is launched with; tuning can need more of these than the defaults do. With compiled
kernels no program is built; what remains is opening the driver, which unpacks the binaries into its cache, and
reading and repacking the weights."""

TUNING = """\
Each tuning starts with an empty build folder and an empty PoCL cache. Device seconds are what the budget counts:
loading the trial plan, building candidates, running and checking them. Wall seconds are the whole command: converting
the model and compiling the tuned kernels too, and comparing default with tuned in turns. A row with Winograd is a
second call, of the model with `winograd: auto`, which also chooses the algorithm of each layer; it knows the other
launches already. *Gain* is the time saved of the default's, with its interval.

What limits it: the timed launches are a few percent of the device time. The rest is building kernels, each once for
every variant and local size, and checking outputs. The defaults were chosen on these drivers, so that a gain near
zero says that a default was right."""

SHARE = """\
The sum of all operators' times (OpenCL events) over the wall time of the same rounds, in rounds with profiling; then
the convolutions' part of that sum.

farmrt queues all launches and waits once. An operator's time counts from the end of the one before it, so that what
the driver needs between two launches is the operator's own."""

CONVERSION = """\
`farm convert` reads and checks the ONNX file, runs all passes, asks the device what it is, lowers, packs the weights,
and writes graph, plan and data. Beside it a Python process that creates an ONNX Runtime session, which a program does
each time that it starts; farm converts once. Peak memory is resident memory of a process or its children, the
highest.

What limits it: for a small model most of the time is importing Python packages. The memory holds the weights as they
are in the ONNX file, in the graph, and packed."""

FARMRT = """\
The executable holds all of farmrt, the CPU operators in several instruction sets too. It needs libc, pthreads and an
OpenCL library, which it opens at run time."""

LIGHT = """\
The nine networks of the onnx package's backend tests, their constant weights replaced by seeded random ones; measured
as above, without tuning."""
