"""Moving pixels between buffers and images."""

from runtime.kernels.image.pixels import EXTENTS, image_of, pixel_items
from runtime.kernels.image.spec import image_kernel

_STRIDES = "stride_n stride_c stride_h stride_w"

KERNELS = (
    image_kernel(
        "buffer_to_image",
        "BufferToImage",
        "x:flat y",
        f"{EXTENTS} {_STRIDES}",
        lambda dims, defines: {"y": image_of(dims)},
        pixel_items,
        source="convert",
    ),
    image_kernel(
        "image_to_buffer",
        "ImageToBuffer",
        "x y:flat",
        f"{EXTENTS} {_STRIDES}",
        lambda dims, defines: {"x": image_of(dims)},
        pixel_items,
        source="convert",
    ),
)
