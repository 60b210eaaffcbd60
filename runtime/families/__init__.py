"""The operator families, a room each; a room holds all that its operators are.

    rows.py              OPERATORS: inputs, attributes, shapes, multiply-accumulates, format category
    imports.py           HANDLERS: ONNX node -> nodes of the graph; WRITERS: the way back; farm_domain.py: FARM_HANDLERS
    expansions.py        EXPANSIONS: node of the graph -> nodes that have lowerings, in its place
    onnx_functions.py    ONNX_FUNCTIONS: node of another domain -> text of a function of ONNX
    stand_ins.py         STAND_INS: node of ONNX -> others that both plan and oracle run in its place
    oracle.py            COMPUTE, or COMPUTE_GENERIC: what an operator computes, in NumPy
    buffer_kernels.py    BUFFER_KERNELS: rows of the kernel table, with NAME.buffer.cl beside them
    image_kernels.py     IMAGE_KERNELS: the same on images, with NAME.image.cl
    block_kernels.py     BLOCK_KERNELS: operators of farmrt's CPU on blocks of channels
    strided_kernels.py   STRIDED_KERNELS: operators of farmrt's CPU on strided views of any element type
    buffer_lowering.py   BUFFER_LOWERINGS: node -> launches on buffers; BYTE_OPERATORS: whether those take bytes
    image_lowering.py    IMAGE_LOWERINGS: node -> launches on images, or why not
    block_lowering.py    BLOCKED_OPERATORS: node -> steps on blocks of channels
    quantized_lowering.py QUANTIZED_OPERATORS: node -> steps on blocks of eight bits; BYTE_FUSIONS: several nodes -> one
                         that works on bytes alone
    strided_lowering.py  STRIDED_LOWERINGS: node -> steps of farmrt's operators on strided views
    opbench_cases.py     OPBENCH_CASES: typical sizes, which `farm opbench` measures
    NAME.cpu.c           operators of farmrt's CPU; NAME.exact.cpu.c: without fused rounding; NAME.lanes.cpu.c: loops,
                         compiled once for each instruction set and block
    definition.py        what an operator is: tables of rows, oracle and kernels, where each is a few lines
    translation.py       what becomes of it: tables of imports, lowerings and sizes, likewise
    node.py, geometry.py what several of these need to know of a node

A file may have further words before its kind (`winograd_image_kernels.py`). `runtime/registry.py` collects the tables,
so that a new family, or a file of one, is entered nowhere.
"""
