"""Operators that use every form of argument: views, images, integers, optional inputs, constants."""

import math

from farm.operators import Case, CFunction, Input, OpenCLKernel, Operator

SCALED = Operator(
    domain="org.forms",
    name="Scaled",
    inputs=["x"],
    shape=lambda shapes, attributes: shapes[0],
    reference=lambda arrays, attributes: arrays[0] * 3,
    kernels=[
        OpenCLKernel(
            source="forms.cl",
            entry="scaled_view",
            tensors="x:view y:view",
            ints="pixels channels",
            arguments=lambda shapes, output, attributes: {
                "pixels": output[0] * output[2] * output[3],
                "channels": output[1],
            },
            work_items=lambda dims, chosen: (dims["channels"], dims["pixels"]),
        ),
        OpenCLKernel(
            source="forms_image.cl",
            entry="scaled_image",
            memory="image",
            tensors="x:image y:image",
            ints="rows channels width",
            arguments=lambda shapes, output, attributes: {
                "rows": output[0] * output[2],
                "channels": output[1],
                "width": output[3],
            },
            work_items=lambda dims, chosen: (math.ceil(dims["channels"] / 4), dims["width"], dims["rows"]),
            local_limit=(2, 4, 4),
        ),
    ],
    data_format="transposable",
    cases=[Case([(1, 8, 5, 6)])],
)

TAKE = Operator(
    domain="org.forms",
    name="Take",
    inputs=[Input("x"), Input("rows", dtype="int32", low=0, high=6), Input("bias", optional=True, constant=True)],
    shape=lambda shapes, attributes: (shapes[1][0], shapes[0][1]),
    reference=lambda arrays, attributes: arrays[0][arrays[1]] + (0 if arrays[2] is None else arrays[2]),
    kernels=[
        OpenCLKernel(
            source="take.cl",
            entry="take",
            tensors="x:flat rows:flat bias:weights y:flat",
            ints="count length",
            arguments=lambda shapes, output, attributes: {"count": output[0], "length": output[1]},
            work_items=lambda dims, chosen: (dims["length"], dims["count"]),
        )
    ],
    c=CFunction(
        source="take.c",
        function="take",
        ints="length",
        arguments=lambda shapes, output, attributes: {"length": output[1]},
        items=lambda shapes, output, attributes: output[0],
    ),
    macs=lambda shapes, output: math.prod(output),
    cases=[Case([(6, 17), (5,), (17,)]), Case([(6, 16), (3,), None])],
)

OPERATORS = [SCALED, TAKE]
