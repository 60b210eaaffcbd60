"""What tests launch the kernels of depth with, and what they compute."""

from tests.runtime.kernel_cases import EXTENTS

IMAGE_CASES = {
    "depth_to_space": (EXTENTS | {"height": 4, "width": 6, "size": 2}, (), {"CRD": 0}),
    "space_to_depth": (EXTENTS | {"size": 2, "in_c": 5, "channels": 20}, (), {"CRD": 0}),
}
