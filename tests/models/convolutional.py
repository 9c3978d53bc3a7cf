"""Convolutional test networks, sized by arguments: VGG, residual, MobileNet-V2, U-Net."""

from __future__ import annotations

from onnx import ModelProto

from models.network import Network


def vgg_like(size: int = 32, width: int = 8, classes: int = 10, seed: int = 0) -> ModelProto:
    """Two stages of two 3x3 convolutions and a max pool, then two dense layers."""
    net = Network("vgg_like", seed=seed)
    x = net.input("image", [1, 3, size, size])
    channels = 3
    for stage in range(2):
        for _ in range(2):
            out = width << stage
            x = net.add("Relu", net.conv(x, channels, out))
            channels = out
        x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Flatten", x)
    x = net.add("Relu", net.gemm(x, channels * (size // 4) ** 2, 64))
    x = net.add("Softmax", net.gemm(x, 64, classes), axis=1)
    return net.model(**{x: [1, classes]})


def residual_net(size: int = 32, width: int = 16, classes: int = 10, seed: int = 0) -> ModelProto:
    """A ResNet stem, an identity block, a strided projection block and a classifier."""
    net = Network("residual_net", seed=seed)
    x = net.input("image", [1, 3, size, size])
    x = net.add("Relu", net.batch_norm(net.conv(x, 3, width, 7, 2, bias=False), width))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for channels_in, channels, stride in ((width, width, 1), (width, 2 * width, 2)):
        y = net.conv(x, channels_in, channels, 3, stride, bias=False)
        y = net.add("Relu", net.batch_norm(y, channels))
        y = net.batch_norm(net.conv(y, channels, channels, bias=False), channels)
        if stride > 1:
            x = net.conv(x, channels_in, channels, 1, stride, bias=False)
            x = net.batch_norm(x, channels)
        x = net.add("Relu", net.add("Add", y, x))
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net.model(**{net.gemm(x, 2 * width, classes): [1, classes]})


def resnet18(size: int = 224, width: int = 64, classes: int = 1000, seed: int = 0) -> ModelProto:
    """ResNet-18 (He et al. 2015, table 1), batch norms folded."""
    net = Network("resnet18", seed=seed)
    x = net.input("image", [1, 3, size, size])
    x = net.add("Relu", net.conv(x, 3, width, 7, 2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage in range(4):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = net.add("Relu", net.conv(x, channels, width << stage, 3, stride))
            y = net.conv(y, width << stage, width << stage)
            if stride > 1:
                x = net.conv(x, channels, width << stage, 1, stride)
            x = net.add("Relu", net.add("Add", y, x))
            channels = width << stage
    x = net.add("Flatten", net.add("GlobalAveragePool", x), axis=1)
    return net.model(**{net.gemm(x, channels, classes): [1, classes]})


# Expansion, output channels, repeats and first stride of each stage of MobileNet-V2 (Sandler et al.
# 2018, table 2).
MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(
    size: int = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """MobileNet-V2 with its width multiplier; batch normalisation is kept as nodes."""

    def scaled(channels: int) -> int:
        return max(8, int(channels * width + 4) // 8 * 8)

    net = Network("mobilenet_v2", seed=seed)
    x = net.input("image", [batch, 3, size, size])

    def conv_norm(x: str, cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1):
        return net.batch_norm(
            net.conv(x, cin, cout, kernel, stride, groups=groups, bias=False), cout
        )

    def relu6(x: str) -> str:
        return net.add("Clip", x, net.scalar(0.0), net.scalar(6.0))

    channels = scaled(32)
    x = relu6(conv_norm(x, 3, channels, 3, 2))
    for expansion, out, repeats, first_stride in MOBILENET_STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            hidden, target = channels * expansion, scaled(out)
            y = relu6(conv_norm(x, channels, hidden, 1)) if expansion > 1 else x
            y = relu6(conv_norm(y, hidden, hidden, 3, stride, groups=hidden))
            y = conv_norm(y, hidden, target, 1)
            x = net.add("Add", x, y) if stride == 1 and channels == target else y
            channels = target
    last = max(1280, scaled(1280)) if width > 1 else 1280 if width == 1.0 else 4 * channels
    x = relu6(conv_norm(x, channels, last, 1))
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net.model(**{net.gemm(x, last, classes): [batch, classes]})


def unet(
    size: int = 32, width: int = 8, *, upsample: str = "transpose", seed: int = 0
) -> ModelProto:
    """A two-level U-Net; `upsample` is "transpose" (ConvTranspose), "nearest" or "linear"."""
    net = Network("unet", seed=seed)
    x = net.input("image", [1, 3, size, size])

    def double_conv(x: str, cin: int, cout: int) -> str:
        for channels in (cin, cout):
            x = net.add("Relu", net.batch_norm(net.conv(x, channels, cout, bias=False), cout))
        return x

    def upsampled(x: str, channels: int) -> str:
        if upsample == "transpose":
            w = net.normal([channels, channels // 2, 2, 2], (2.0 / channels) ** 0.5)
            return net.add("ConvTranspose", x, w, kernel_shape=[2, 2], strides=[2, 2])
        scales = net.weight(_floats(1, 1, 2, 2))
        x = net.add(
            "Resize",
            x,
            "",
            scales,
            mode=upsample,
            coordinate_transformation_mode="asymmetric" if upsample == "nearest" else "half_pixel",
            nearest_mode="floor",
        )
        return net.conv(x, channels, channels // 2, 1)

    skips = []
    channels = 3
    for level in range(2):
        x = double_conv(x, channels, width << level)
        channels = width << level
        skips.append((x, channels))
        x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = double_conv(x, channels, 2 * channels)
    channels *= 2
    for skip, skip_channels in reversed(skips):
        x = net.add("Concat", skip, upsampled(x, channels), axis=1)
        x = double_conv(x, skip_channels + channels // 2, skip_channels)
        channels = skip_channels
    x = net.add("Sigmoid", net.conv(x, channels, 2, 1))
    return net.model(**{x: [1, 2, size, size]})


def _floats(*values: float):
    import numpy as np

    return np.array(values, np.float32)
