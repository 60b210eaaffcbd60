"""Says products of strided tensors by the loops of the kernel `matmul`."""

from collections.abc import Sequence

from runtime.lowering.iteration import merge_axes, padded

_BATCH = 3  # loops of matrices
Loop = tuple[int, int, int, int]  # elements, and strides in a, b and y
_NOTHING: Loop = (1, 1, 1, 1)


def product_loops(
    shape: Sequence[int],
    summed: Sequence[int],
    a_strides: Sequence[int],
    b_strides: Sequence[int],
    y_strides: Sequence[int],
) -> dict[str, int] | None:
    """Returns the kernel's dims for y[i] = sum over s of a[(i, s) . a_strides] b[(i, s) . b_strides].

    None where the loops are not those of up to three axes of matrices. `y_strides` are those of the loops i.
    """
    rank = len(shape)
    all_loops = list(zip(shape, a_strides, b_strides, y_strides, strict=False))
    rows = _merged([loop for loop in all_loops if loop[1] and not loop[2]])
    columns = _merged([loop for loop in all_loops if loop[2] and not loop[1]])
    inner = _merged([(*step, 0) for step in zip(summed, a_strides[rank:], b_strides[rank:], strict=True)])
    shared = [loop for loop in all_loops if bool(loop[1]) == bool(loop[2])]
    batch = _merged([*shared, *rows[:-1], *columns[:-1]])
    if len(batch) > _BATCH or len(inner) > 1 or any(stride < 0 for loop in all_loops for stride in loop[1:]):
        return None
    return _dims(batch, (rows or [_NOTHING])[-1], (inner or [_NOTHING])[0], (columns or [_NOTHING])[-1])


def _merged(loops: list[Loop]) -> list[Loop]:
    """Loops without those of one element, and neighbours as one where they can be; none where nothing is left."""
    loops = [loop for loop in loops if loop[0] > 1]
    if not loops:
        return []
    extents, strides = merge_axes([loop[0] for loop in loops], [tuple(loop[i] for loop in loops) for i in (1, 2, 3)])
    return [(size, a, b, y) for size, a, b, y in zip(extents, *strides, strict=True)]


def _dims(batch: list[Loop], row: Loop, inner: Loop, column: Loop) -> dict[str, int]:
    dims = {f"d{i}": size for i, size in enumerate(padded([loop[0] for loop in batch], _BATCH, 1))}
    dims |= {"m": row[0], "k": inner[0], "n": column[0]}
    for index, (tensor, steps) in enumerate(_STEPS.items(), start=1):
        strides = padded([loop[index] for loop in batch], _BATCH, 0)
        dims |= {f"{tensor}s{i}": stride for i, stride in enumerate(strides)}
        loops = {"m": row, "k": inner, "n": column}
        dims |= {f"{tensor}{axis}": loops[axis][index] for axis in steps}
    return dims


_STEPS = {"a": "mk", "b": "kn", "y": "mn"}
