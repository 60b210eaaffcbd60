"""The operator families, a room each; a room holds all that its operators are.

    rows.py              OPERATORS: inputs, attributes, shapes, multiply-accumulates, format category
    imports.py           OPERATORS: ONNX node -> nodes of the graph; farm_domain.py: the same of the domain `farm`
    oracle.py            COMPUTE, or COMPUTE_GENERIC: what an operator computes, in NumPy
    buffer_kernels.py    KERNELS: rows of the kernel table, with NAME.buffer.cl beside them
    image_kernels.py     KERNELS: the same on images, with NAME.image.cl
    block_kernels.py     KERNELS: operators of farmrt's CPU on blocks of channels
    strided_kernels.py   KERNELS: operators of farmrt's CPU on strided views of any element type
    buffer_lowering.py   LOWERINGS: node -> launches on buffers
    image_lowering.py    LOWERINGS: node -> launches on images, or why not
    block_lowering.py    OPERATORS: node -> steps on blocks of channels
    strided_lowering.py  LOWERINGS: node -> steps of farmrt's operators on strided views
    node.py, geometry.py what several of these need to know of a node

A file may have further words before its kind (`winograd_image_kernels.py`). `runtime/registry.py` collects the tables,
so that a new family, or a file of one, is entered nowhere.
"""
