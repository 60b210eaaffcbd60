"""What tests launch the kernel with, and what it computes."""

from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats
from tests.runtime.kernel_cases import TABLE, Case


def compute_cube(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    return floats["scale"] * arrays["x"] ** 3


CASES = {f"cube {count}": Case(TABLE["cube"], {"count": count}, {}, {"scale": 0.5}) for count in (1, 37)}
ORACLES = {"cube": compute_cube}
