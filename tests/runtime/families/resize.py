"""What tests launch the kernels of resize with, and what they compute."""

import numpy as np

from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats
from tests.runtime.kernel_cases import SPATIAL, TABLE, Case


def resize_bilinear(size: tuple[int, int], out: tuple[int, int], channels: int) -> Case:
    scale = [i / o for i, o in zip(size, out, strict=True)]
    shift = [0.5 * s - 0.5 for s in scale]
    floats = {"scale_h": scale[0], "scale_w": scale[1], "shift_h": shift[0], "shift_w": shift[1]}
    return Case(TABLE["resize_bilinear"], resize_dims(size, out, channels), floats=floats)


def resize_nearest(size: tuple[int, int], rows: tuple[int, ...], columns: tuple[int, ...], channels: int) -> Case:
    dims = resize_dims(size, (len(rows), len(columns)), channels)
    return Case(TABLE["resize_nearest"], dims, tables={"rows": rows, "columns": columns})


def resize_dims(size: tuple[int, int], out: tuple[int, int], channels: int) -> dict[str, int]:
    return {"batch": 2, "in_h": size[0], "in_w": size[1], "channels": channels, "out_h": out[0], "out_w": out[1]}


def compute_resize_nearest(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    image = arrays["x"].reshape(dims["batch"], dims["in_h"], dims["in_w"], -1)
    return image.take(arrays["rows"], 1, mode="clip").take(arrays["columns"], 2, mode="clip")


def compute_resize_bilinear(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    image = arrays["x"].reshape(dims["batch"], dims["in_h"], dims["in_w"], -1)
    rows = np.arange(dims["out_h"]) * floats["scale_h"] + floats["shift_h"]
    columns = np.arange(dims["out_w"]) * floats["scale_w"] + floats["shift_w"]
    return interpolate(interpolate(image, rows, 1), columns, 2)


def interpolate(image: Array, coordinates: Array, axis: int) -> Array:
    last = image.shape[axis] - 1
    inside = np.clip(coordinates, 0, last)
    low = np.floor(inside).astype(int)
    share = (inside - low).reshape([-1 if a == axis else 1 for a in range(image.ndim)])
    return image.take(low, axis) * (1 - share) + image.take(np.minimum(low + 1, last), axis) * share


CASES: dict[str, Case] = {
    "resize nearest": resize_nearest((5, 6), (0, 0, 1, 2, 2, 3, 4, 4, 4), (5, 0, 3, 1), 5),
    "resize nearest x2": resize_nearest((3, 4), (0, 0, 1, 1, 2, 2), (0, 0, 1, 1, 2, 2, 3, 3), 19),
    "resize bilinear up": resize_bilinear((4, 5), (9, 11), channels=19),
    "resize bilinear down": resize_bilinear((9, 8), (4, 3), channels=16),
}
ORACLES = {"resize_nearest": compute_resize_nearest, "resize_bilinear": compute_resize_bilinear}
IMAGE_CASES = {
    "resize_nearest": (SPATIAL | {"channels": 6}, (), {}),
    "resize_bilinear": (SPATIAL | {"channels": 6}, (1.7, 1.0, 0.0, 0.0), {}),
}
