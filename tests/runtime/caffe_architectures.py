"""Well-known Caffe networks with seeded weights, at any width and size: the net, its input's shape, and its outputs."""

from collections.abc import Callable, Mapping

from tests.runtime.caffe_networks import CaffeNet

Shape = tuple[int, int, int, int]
Built = tuple[CaffeNet, Shape, tuple[str, ...]]


def alexnet(width: int, size: int) -> Built:
    """AlexNet: grouped convolutions and LRN; `width` is the channels of its first layer (96)."""
    net, shape = CaffeNet(), (1, 3, size, size)
    lrn = "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }"
    x = net.conv("conv1", net.input("data", shape), width, 11, stride=4)
    x = net.pool("pool1", net.layer("LRN", "norm1", [x], ["norm1"], lrn))
    x = net.conv("conv2", x, width * 8 // 3, 5, pad=2, group=2)
    x = net.pool("pool2", net.layer("LRN", "norm2", [x], ["norm2"], lrn))
    x = net.conv("conv3", x, width * 4, 3, pad=1)
    x = net.conv("conv4", x, width * 4, 3, pad=1, group=2)
    x = net.pool("pool5", net.conv("conv5", x, width * 8 // 3, 3, pad=1, group=2))
    pooled = rounded_up(rounded_up(rounded_up((size - 11) // 4 + 1)))
    for name, inner, outputs in (
        ("fc6", width * 8 // 3 * pooled**2, width * 128 // 3),
        ("fc7", width * 128 // 3, width * 128 // 3),
    ):
        x = net.dense(name, x, inner, outputs)
        net.layer("ReLU", f"{name}_relu", [x], [x])
        net.layer("Dropout", f"{name}_drop", [x], [x], "dropout_param { dropout_ratio: 0.5 }")
    x = net.dense("fc8", x, width * 128 // 3, 1000)
    return net, shape, (net.layer("Softmax", "prob", [x], ["prob"]),)


def rounded_up(size: int) -> int:
    """Outputs of a pool of 3 by a stride of 2, of which Caffe rounds the count up."""
    return -(-(size - 3) // 2) + 1


def squeezenet(width: int, size: int) -> Built:
    """SqueezeNet v1.1; `width` is the narrowest squeeze (16)."""
    net, shape = CaffeNet(), (1, 3, size, size)
    x = net.pool("pool1", net.conv("conv1", net.input("data", shape), width * 4, 3, stride=2))
    for index, factor in enumerate((1, 1, 2, 2, 3, 3, 4, 4), start=2):
        name, squeeze = f"fire{index}", width * factor
        x = net.conv(f"{name}_squeeze", x, squeeze, 1)
        sides = [net.conv(f"{name}_expand1", x, squeeze * 4, 1), net.conv(f"{name}_expand3", x, squeeze * 4, 3, pad=1)]
        x = net.concat(f"{name}_concat", sides)
        if index in (3, 5):
            x = net.pool(f"pool{index}", x)
    net.layer("Dropout", "drop9", [x], [x])
    x = net.pool("pool10", net.conv("conv10", x, 1000, 1), "AVE", "global_pooling: true")
    return net, shape, (net.layer("Softmax", "prob", [x], ["prob"]),)


def conv_bn(net: CaffeNet, name: str, bottom: str, outputs: int, kernel: int, relu: bool = True, **window: int) -> str:
    """Convolution without bias, BatchNorm and Scale, and a ReLU, all in place."""
    x = net.batch_norm(net.conv(name, bottom, outputs, kernel, bias=False, relu=False, **window), name)
    return net.layer("ReLU", f"{name}_relu", [x], [x]) if relu else x


def mobilenet(width: int, size: int) -> Built:
    """MobileNet V1 of depthwise groups; `width` is the channels of its first layer (32)."""
    net, shape = CaffeNet(), (1, 3, size, size)
    x = conv_bn(net, "conv1", net.input("data", shape), width, 3, stride=2, pad=1)
    blocks = [(2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *[(16, 1)] * 5, (32, 2), (32, 1)]
    for index, (factor, stride) in enumerate(blocks, start=2):
        x = conv_bn(net, f"conv{index}_dw", x, net.channels[x], 3, stride=stride, pad=1, group=net.channels[x])
        x = conv_bn(net, f"conv{index}_pw", x, width * factor, 1)
    x = net.conv("fc7", net.pool("pool6", x, "AVE", "global_pooling: true"), 1000, 1, relu=False)
    return net, shape, (net.layer("Softmax", "prob", [x], ["prob"]),)


def resnet(width: int, size: int, stages: tuple[int, ...] = (3, 4, 6, 3)) -> Built:
    """ResNet of bottlenecks; `width` is the channels of its first layer (64)."""
    net, shape = CaffeNet(), (1, 3, size, size)
    x = net.pool("pool1", conv_bn(net, "conv1", net.input("data", shape), width, 7, stride=2, pad=3))
    for stage, blocks in enumerate(stages):
        for block in range(blocks):
            x = bottleneck(net, f"res{stage + 2}_{block}", x, width << stage, 2 if stage and not block else 1)
    side = size // 32 + (size % 32 > 0)
    x = net.pool("pool5", x, "AVE", f"kernel_size: {side} stride: 1")
    x = net.dense("fc1000", x, net.channels[x], 1000)
    return net, shape, (x, net.layer("Softmax", "prob", [x], ["prob"]))


def bottleneck(net: CaffeNet, name: str, bottom: str, width: int, stride: int) -> str:
    """A residual block; its first convolution strides, as in the original."""
    x = conv_bn(net, f"{name}_a", bottom, width, 1, stride=stride)
    x = conv_bn(net, f"{name}_c", conv_bn(net, f"{name}_b", x, width, 3, pad=1), width * 4, 1, relu=False)
    if net.channels[bottom] != width * 4 or stride > 1:
        bottom = conv_bn(net, f"{name}_shortcut", bottom, width * 4, 1, relu=False, stride=stride)
    x = net.layer("Eltwise", name, [bottom, x], [name])
    return net.layer("ReLU", f"{name}_relu", [x], [x])


def googlenet(width: int, size: int) -> Built:
    """GoogLeNet without its auxiliary heads; `width` is the channels of its first layer (64)."""
    net, shape = CaffeNet(), (1, 3, size, size)
    x = net.pool("pool1", net.conv("conv1", net.input("data", shape), width, 7, stride=2, pad=3))
    x = net.layer("LRN", "norm1", [x], ["norm1"], "lrn_param { local_size: 5 alpha: 0.0001 }")
    x = net.conv("conv2", net.conv("conv2_reduce", x, width, 1), width * 3, 3, pad=1)
    x = net.pool("pool2", net.layer("LRN", "norm2", [x], ["norm2"], "lrn_param { local_size: 5 alpha: 0.0001 }"))
    for name, factor in (("3a", 4), ("3b", 6), ("4a", 8), ("4b", 8), ("5a", 13), ("5b", 16)):
        x = inception(net, name, x, width * factor // 4)
        if name in ("3b", "4b"):
            x = net.pool(f"pool{name}", x)
    x = net.pool("pool5", x, "AVE", "global_pooling: true")
    net.layer("Dropout", "drop5", [x], [x])
    return net, shape, (net.layer("Softmax", "prob", [net.dense("fc", x, net.channels[x], 1000)], ["prob"]),)


def inception(net: CaffeNet, name: str, bottom: str, width: int) -> str:
    """Four branches; the pool of the last keeps the size."""
    wide = net.conv(f"{name}_3", net.conv(f"{name}_3_reduce", bottom, width, 1), width * 2, 3, pad=1)
    wider = net.conv(f"{name}_5", net.conv(f"{name}_5_reduce", bottom, width // 2, 1), width // 2, 5, pad=2)
    pooled = net.pool(f"{name}_pool", bottom, "MAX", "kernel_size: 3 stride: 1 pad: 1")
    branches = [net.conv(f"{name}_1", bottom, width, 1), wide, wider, net.conv(f"{name}_proj", pooled, width // 2, 1)]
    return net.concat(f"{name}_output", branches)


def ssd(width: int, size: int) -> Built:
    """Features at two scales with SSD's heads: scaled norm, locations, confidences and prior boxes of 3 classes."""
    net, shape = CaffeNet(), (1, 3, size, size)
    x = net.conv("conv1", net.input("data", shape), width, 3, stride=2, pad=1)
    fine = net.conv("conv4_3", net.pool("pool1", x, "MAX", "kernel_size: 2 stride: 2"), width * 2, 3, pad=1)
    coarse = net.conv("fc7", net.pool("pool4", fine), width * 4, 3, pad=6, dilation=6)
    norm = 'norm_param { across_spatial: false scale_filler { type: "constant" value: 20 } channel_shared: false }'
    scales = [net.normal(width * 2, spread=1.0, mean=20.0)]
    fine = net.layer("Normalize", "conv4_3_norm", [fine], ["conv4_3_norm"], norm, scales)
    heads = [head(net, name, at * size // 8) for at, name in enumerate((fine, coarse), start=1)]
    loc, conf, boxes = (list(each) for each in zip(*heads, strict=True))
    mbox_loc = net.concat("mbox_loc", loc, "concat_param { axis: 1 }")
    conf_name = net.concat("mbox_conf", conf, "concat_param { axis: 1 }")
    net.layer("Concat", "mbox_priorbox", boxes, ["mbox_priorbox"], "concat_param { axis: 2 }")
    shaped = "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }"
    x = net.layer("Reshape", "mbox_conf_reshape", [conf_name], ["mbox_conf_reshape"], shaped)
    x = net.layer("Softmax", "mbox_conf_softmax", [x], ["mbox_conf_softmax"], "softmax_param { axis: 2 }")
    flat = net.layer("Flatten", "mbox_conf_flatten", [x], ["mbox_conf_flatten"], "flatten_param { axis: 1 }")
    bottoms = [mbox_loc, flat, "mbox_priorbox"]
    text = "num_classes: 3 share_location: true background_label_id: 0 code_type: CENTER_SIZE keep_top_k: 200 "
    text += "confidence_threshold: 0.01 nms_param { nms_threshold: 0.45 top_k: 400 }"
    net.layer("DetectionOutput", "detection_out", bottoms, ["detection_out"], f"detection_output_param {{ {text} }}")
    return net, shape, (mbox_loc, flat, "mbox_priorbox")


def head(net: CaffeNet, bottom: str, least: int) -> tuple[str, str, str]:
    """Locations and confidences of four boxes a pixel, flattened, and these boxes."""
    flattened = []
    for kind, outputs in (("loc", 4 * 4), ("conf", 4 * 3)):
        x = net.conv(f"{bottom}_{kind}", bottom, outputs, 3, pad=1, relu=False)
        order = "permute_param { order: 0 order: 2 order: 3 order: 1 }"
        x = net.layer("Permute", f"{bottom}_{kind}_perm", [x], [f"{bottom}_{kind}_perm"], order)
        flattened.append(net.layer("Flatten", f"{bottom}_{kind}_flat", [x], [f"{bottom}_{kind}_flat"]))
    text = f"prior_box_param {{ min_size: {least} max_size: {least * 2} aspect_ratio: 2 flip: true clip: false "
    text += "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 }"
    boxes = f"{bottom}_mbox_priorbox"
    return flattened[0], flattened[1], net.layer("PriorBox", boxes, [bottom, "data"], [boxes], text)


# Name -> builder, and width and size in quick tests and of the whole network.
ARCHITECTURES: Mapping[str, tuple[Callable[[int, int], Built], tuple[int, int], tuple[int, int]]] = {
    "alexnet": (alexnet, (12, 99), (96, 227)),
    "squeezenet": (squeezenet, (4, 62), (16, 227)),
    "mobilenet": (mobilenet, (4, 64), (32, 224)),
    "resnet": (resnet, (4, 64), (64, 224)),
    "googlenet": (googlenet, (8, 62), (64, 224)),
    "ssd": (ssd, (8, 60), (64, 300)),
}
