"""Everything that is measured on a GPU, the most important first.

The groups follow the figures of the TVM paper and of the posts on its blog (`GROUPS`); with a time
limit, the groups at the end are those that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import onnx.parser
from onnx import ModelProto

from bits import KINDS
from case import Case
from gpus.items import Item, Numbers
from gpus.sides import COMPILED, EAGER, FUSED_ATTENTION, TRITON
from suites import conv, depthwise, fusion
from table2 import LAYERS
from tcopt.frontends.onnx.building.network import Network
from zoo import (
    bert_base,
    dcgan_generator,
    dqn,
    lstm_lm,
    mobilenet_v1,
    mobilenet_v2,
    resnet18,
    vgg16,
)
from zoo.attention import attend

GROUPS = {
    "networks": ("Networks", "TVM paper, figure 14"),
    "layers": ("Convolutions of ResNet-18", "TVM paper, figure 15 and table 2"),
    "depthwise": ("Depthwise convolutions of MobileNet", "TVM paper, figure 15 and table 2"),
    "fusion": ("Fusion on and off", "TVM paper, figure 4"),
    "sharing": ("Cooperative fetching on and off", "TVM paper, figure 7"),
    "products": ("Matrix products", ""),
    "batched": ("Batched products of short sequences", "the post on neural machine translation"),
    "memory": ("Norms, softmax, vectors and attention", ""),
    "switches": ("Split-K, Winograd and fetching ahead on and off", ""),
    "wide": ("Networks at a batch of 32", "the posts on AutoTVM and int8, batches above one"),
    "quantised": ("Networks in int8", "the post on int8 on CUDA"),
    "compiled": ("Networks and norms by torch.compile", ""),
}
"""Title of each group, and the published figure that it answers, in the order of the report."""

Build = Callable[[], ModelProto]

_NETWORKS: dict[str, Callable[[int], ModelProto]] = {
    "resnet18": resnet18.build,
    "mobilenet_v1": mobilenet_v1.build,
    "dqn": dqn.build,
    "lstm_lm": lstm_lm.build,
    "dcgan_generator": dcgan_generator.build,
    "bert_base": bert_base.build,
    "mobilenet_v2": mobilenet_v2.build,
}


def product(left: Sequence[int], right: Sequence[int]) -> ModelProto:
    """Product of two inputs."""
    net = Network("product")
    x, y = net.input("x", left), net.input("y", right)
    return net.model(**{net.add("MatMul", x, y): [*left[:-1], right[-1]]})


def product_and(after: str, left: Sequence[int], right: Sequence[int]) -> ModelProto:
    """Batched product [batch, heads, ...] with an addition or a transposition after it."""
    net = Network("product_and")
    batch, heads, rows, _ = left
    columns = right[-1]
    z = net.add("MatMul", net.input("x", left), net.input("y", right))
    if after == "add":
        z = net.add("Add", z, net.input("z", [batch, 1, rows, columns]))
        return net.model(**{z: [batch, heads, rows, columns]})
    return net.model(**{net.add("Transpose", z, perm=[0, 2, 1, 3]): [batch, rows, heads, columns]})


def bytes_product(rows: int, terms: int, columns: int) -> ModelProto:
    """Product of matrices of bytes, accumulated in 32 bits."""
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
bytes (int8[{rows}, {terms}] x, int8[{terms}, {columns}] y) => (int32[{rows}, {columns}] z) {{
  z = MatMulInteger(x, y)
}}""")


def dense(rows: int, terms: int, columns: int) -> ModelProto:
    """Rows by a constant matrix."""
    net = Network("dense")
    x = net.input("x", [rows, terms])
    w = net.normal([terms, columns], terms**-0.5)
    return net.model(**{net.add("MatMul", x, w): [rows, columns]})


def unary(operator: str, shape: Sequence[int]) -> ModelProto:
    """One operator along the last axis."""
    net = Network("unary")
    x = net.input("x", shape)
    attributes = {"axis": -1} if operator == "Softmax" else {}
    return net.model(**{net.add(operator, x, **attributes): shape})


def layer_norm(rows: int, width: int) -> ModelProto:
    net = Network("layer_norm")
    x = net.input("x", [rows, width])
    return net.model(**{net.layer_norm(x, width): [rows, width]})


def attention(heads: int, tokens: int, width: int) -> ModelProto:
    """softmax(q k^T) v, heads merged."""
    net = Network("attention")
    q, k, v = (net.input(name, [1, heads, tokens, width]) for name in "qkv")
    merged = [1, tokens, heads * width]
    return net.model(**{attend(net, q, k, v, (1, tokens, heads * width), width): merged})


def batched_layer(
    batch: int, size: int, channels_in: int, channels_out: int, kernel: int, stride: int
) -> ModelProto:
    """A convolution with its bias."""
    net = Network("batched_layer")
    x = net.input("x", [batch, channels_in, size, size])
    out = (size - 1) // stride + 1
    y = net.conv(x, channels_in, channels_out, kernel, stride)
    return net.model(**{y: [batch, channels_out, out, out]})


def convolution_and(size: int, channels: int, groups: int) -> ModelProto:
    """A convolution with its bias, batch norm and ReLU."""
    net = Network("convolution_and")
    shape = [1, channels, size, size]
    x = net.conv(net.input("x", shape), channels, channels, groups=groups)
    return net.model(**{net.add("Relu", net.batch_norm(x, channels)): shape})


def _byte_layer(number: int) -> ModelProto:
    (kind,) = (each for each in KINDS if each.name == "int8")
    return kind.model(LAYERS[number])


def items() -> list[Item]:
    """All measurements."""
    return [
        *_networks("f32", 1, "networks"),
        *_each("layers", conv.CASES, "f32"),
        *_each("depthwise", depthwise.CASES, "f32"),
        *_networks("f16", 1, "networks"),
        *_products(),
        *_variants(),
        *_memory(),
        *_batched(),
        *_each("layers", conv.CASES, "f16"),
        *_bytes(),
        *_networks("int8", 1, "quantised"),
        *_networks("f16", 32, "wide"),
        *_networks("f32", 32, "wide"),
        *_networks("bf16", 1, "networks"),
        *_networks("int8", 32, "quantised"),
        *_networks("bf16", 32, "wide"),
        *_each("depthwise", depthwise.CASES, "f16"),
        *_each("layers", conv.CASES, "bf16"),
        Item("quantised", "vgg16", vgg16.build, "VGG-16", "int8", Numbers.QUANTIZED, peers=()),
        Item("networks", "vgg16", vgg16.build, "VGG-16"),
        *_compiled(),
    ]


def _networks(dtype: str, batch: int, group: str) -> Iterator[Item]:
    how = {"f32": Numbers.STORED, "int8": Numbers.QUANTIZED}.get(dtype, Numbers.ROUNDED)
    for name, build in _NETWORKS.items():
        # LSTMs are not quantised, and shapes of attention have the batch in them.
        if dtype == "int8" and (name == "lstm_lm" or (name == "bert_base" and batch > 1)):
            continue
        peers = () if dtype == "int8" else (EAGER,)
        made = partial(build, 1 if dtype == "int8" else batch)
        yield Item(group, name, made, f"batch {batch}", dtype, how, batch, peers=peers)


def _each(group: str, cases: Sequence[Case], dtype: str) -> Iterator[Item]:
    for case in cases:
        yield Item(group, case.name, case.build, case.what, dtype)


_DENSE = ((128, 768, 768), (128, 768, 3072), (128, 3072, 768))
_LIBRARIES = (EAGER, TRITON)


def _products() -> Iterator[Item]:
    for size in (1024, 2048, 4096):
        name, what = f"square_{size}", f"{size}x{size} by {size}x{size}"
        build = partial(product, [size, size], [size, size])
        for dtype in ("f32", "f16", "bf16"):
            yield Item("products", name, build, what, dtype, peers=_LIBRARIES)
        build = partial(bytes_product, size, size, size)
        yield Item("products", name, build, what, "int8", Numbers.OWN, peers=_LIBRARIES)
    for rows, terms, columns in _DENSE:
        name, what = f"dense_{rows}x{terms}x{columns}", "by a constant matrix, of BERT-base"
        for dtype in ("f32", "f16"):
            build = partial(dense, rows, terms, columns)
            yield Item("products", name, build, what, dtype, peers=_LIBRARIES)


def _variants() -> Iterator[Item]:
    """Cases under changed rules, each with the unchanged one before it."""
    pairs: list[tuple[Item, str]] = [
        *((Item("fusion", each.name, each.build, each.what), "fusion") for each in fusion.CASES),
        *(
            (Item("fusion", name, partial(_NETWORKS[name], 1), "batch 1"), "fusion")
            for name in ("lstm_lm", "resnet18", "mobilenet_v1", "dqn")
        ),
        *(
            (
                Item("sharing", f"square_{n}", partial(product, [n, n], [n, n]), "figure 7"),
                "cooperation",
            )
            for n in (1024, 2048)
        ),
        *(
            (Item("switches", name, partial(dense, *sizes), "of BERT-base"), "split-k")
            for name, sizes in (("dense_128x768x768", _DENSE[0]), ("dense_128x3072x768", _DENSE[2]))
        ),
        *(
            (Item("switches", case.name, case.build, case.what), "winograd")
            for case in conv.CASES
            if case.name in ("C2", "C6", "C9", "C12")
        ),
        *(
            (
                Item("switches", f"square_{n}", partial(product, [n, n], [n, n]), "f16", "f16"),
                "ahead",
            )
            for n in (1024, 4096)
        ),
    ]
    for item, variant in pairs:
        yield item
        yield replace(item, variant=variant, peers=())


def _memory() -> Iterator[Item]:
    cases: list[tuple[str, Build, str, tuple[str, ...]]] = [
        ("softmax_4096x1024", partial(unary, "Softmax", [4096, 1024]), "rows of 1024", _LIBRARIES),
        ("softmax_1x32000", partial(unary, "Softmax", [1, 32000]), "one row", _LIBRARIES),
        ("layer_norm_4096x768", partial(layer_norm, 4096, 768), "rows of 768", (EAGER,)),
        ("relu_2^25", partial(unary, "Relu", [1 << 12, 1 << 13]), "elementwise", (EAGER,)),
        ("gemv_4096x4096", partial(dense, 1, 4096, 4096), "a vector by a matrix", (EAGER,)),
        (
            "attention_2048",
            partial(attention, 12, 2048, 64),
            "12 heads, 2048 tokens of 64",
            (EAGER, FUSED_ATTENTION),
        ),
        (
            "attention_128",
            partial(attention, 12, 128, 64),
            "12 heads, 128 tokens of 64",
            (EAGER, FUSED_ATTENTION),
        ),
    ]
    for dtype in ("f32", "f16", "bf16"):
        for name, build, what, peers in cases:
            yield Item("memory", name, build, what, dtype, peers=peers)


def _batched() -> Iterator[Item]:
    """The products of the post: 64 sentences, 8 heads, lengths of 1 to 30, 128 terms."""
    for rows, columns in ((17, 17), (1, 17), (17, 1), (30, 30)):
        name = f"batched_{rows}x{columns}"
        build = partial(product, [512, rows, 128], [512, 128, columns])
        yield Item("batched", name, build, f"512 of {rows}x128 by 128x{columns}")
    for after in ("add", "transpose"):
        item = Item(
            "batched",
            f"batched_1x17_{after}",
            partial(product_and, after, [64, 8, 1, 128], [64, 8, 128, 17]),
            f"512 of 1x128 by 128x17, then {after}",
        )
        yield item
        yield replace(item, variant="fusion", peers=())


def _bytes() -> Iterator[Item]:
    for number, layer in enumerate(LAYERS):
        build = partial(_byte_layer, number)
        what = "from bytes to bytes"
        yield Item("layers", layer.name, build, what, "int8", Numbers.OWN, peers=())


def _compiled() -> Iterator[Item]:
    """Cases of other groups again, by a peer that takes long to compile."""
    for item in (*_networks("f16", 1, "compiled"), *_networks("f32", 1, "compiled")):
        yield replace(item, peers=(COMPILED,))
    for item in _memory():
        if item.dtype == "f16":
            yield replace(item, group="compiled", peers=(COMPILED,))


def small_items() -> list[Item]:
    """Tiny cases of every kind, for trying everything out in seconds."""
    net = partial(convolution_and, 6, 4, 1)
    layer = partial(conv.convolution, "tiny", 6, 4, 8, 3, 1)
    square = partial(product, [16, 16], [16, 16])
    return [
        Item("networks", "tiny", net, "batch 1"),
        Item("layers", "tiny", layer, "6x6, 4 to 8, 3x3"),
        Item("networks", "tiny", net, "batch 1", "f16", Numbers.ROUNDED),
        Item("products", "tiny", square, "16x16", peers=_LIBRARIES),
        Item("products", "tiny", square, "16x16", "bf16", peers=_LIBRARIES),
        Item("products", "tiny", partial(bytes_product, 8, 8, 8), "8x8", "int8", Numbers.OWN),
        Item("fusion", "tiny", net, "figure 4"),
        Item("fusion", "tiny", net, "figure 4", variant="fusion", peers=()),
        Item("sharing", "tiny", square, "figure 7", variant="cooperation", peers=()),
        Item("memory", "softmax", partial(unary, "Softmax", [3, 8]), "rows of 8"),
        Item("memory", "attention", partial(attention, 1, 8, 8), "8 tokens of 8", "f16"),
        Item("quantised", "tiny", net, "batch 1", "int8", Numbers.QUANTIZED, peers=()),
    ]
