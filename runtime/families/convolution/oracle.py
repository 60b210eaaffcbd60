"""Computes a convolution in NumPy."""

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.graph import Array
from runtime.oracle.shared import Compute, image_windows
from runtime.semantics.shape_functions import Attributes


def _conv(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """Computes the convolution of each group as one matrix product over the windows of the padded image."""
    x, w, bias, residual = (*arguments, None, None)[:4]
    assert x is not None and w is not None
    vertical, horizontal = attributes["dilations"]
    span = (vertical * (w.shape[2] - 1) + 1, horizontal * (w.shape[3] - 1) + 1)
    windows = image_windows(x, span, attributes, 0)[..., ::vertical, ::horizontal]
    batch, channels, rows, columns = windows.shape[:4]
    group, per_group = attributes["group"], w.shape[0] // attributes["group"]
    split = windows.reshape(batch, group, channels // group, rows, columns, *w.shape[2:])
    patches = split.transpose(0, 1, 2, 5, 6, 3, 4).reshape(batch, group, -1, rows * columns)
    out = np.matmul(w.reshape(group, per_group, -1), patches).reshape(batch, w.shape[0], rows, columns)
    if bias is not None:
        out = out + bias[:, None, None]
    return np.asarray(out if residual is None else out + residual)


COMPUTE: Mapping[str, Compute] = {"Conv": _conv}
