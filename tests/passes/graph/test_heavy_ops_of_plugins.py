"""A plugin's products and convolutions take part in layouts and packing by rules of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

import tcopt
from tcopt.compiler.passes import run_passes
from tcopt.frontends.onnx import import_model
from tcopt.support.registries.plugins import load_plugins, unload

PLUGIN = '''
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, result_def

import numpy as np

from tcopt.dialects import graph
from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.core.types import shape_of, tensor
from tcopt.dialects.te import api as te
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.nodes.contrib import register_schema
from tcopt.passes.graph.layout.blocked_forms import contraction_in_blocks
from tcopt.passes.graph.packing.panels import PanelForm, panel_form
from tcopt.passes.graph.precision.byte_products import summed_axes
from tcopt.passes.graph.winograd.forms import WinogradForm, winograd_form


@irdl_op_definition
class MixOp(ContractionOp):
    """x [N, C, H, W] with channels mixed by w [O, C]."""

    name = "graph.mix"
    FUSION: ClassVar = graph.FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, x, w):
        super().__init__([x, w])

    def infer(self):
        n, _, *space = shape_of(self.x)
        return [tensor([n, shape_of(self.w)[0], *space], self.sum_element())]

    def compute(self, x, w):
        return np.einsum("nchw,oc->nohw", x, w)

    def tensor_expression(self, x, w):
        c = te.reduce_axis(x.shape[1], "c")
        return te.compute(
            self.shape,
            lambda n, o, i, j: te.sum(x[n, c, i, j] * w[o, c], axis=c),
            name="mix",
        )


@contraction_in_blocks.rule_for(MixOp)
def mix_in_blocks(op, layouts):
    outer, inner = (layouts.block_of(n) for n in shape_of(op.w))
    weights = layouts.insert(graph.ReshapeOp(op.w, (*shape_of(op.w), 1, 1)))
    form = LayoutTransformOp(weights, src="OIHW", dst=f"OIHW{inner}i{outer}o")
    return graph.BlockedConvOp(layouts.blocked(op.x), layouts.insert(form))


@irdl_op_definition
class RightProductOp(ContractionOp):
    """x [M, K] times w [N, K]."""

    name = "graph.right_product"
    FUSION: ClassVar = graph.FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, x, w):
        super().__init__([x, w])

    def infer(self):
        return [tensor([shape_of(self.x)[0], shape_of(self.w)[0]], self.sum_element())]

    def compute(self, x, w):
        return x @ w.T

    def tensor_expression(self, x, w):
        k = te.reduce_axis(x.shape[1], "k")
        return te.compute(self.shape, lambda i, j: te.sum(
            self.widened(x[i, k]) * self.widened(w[j, k]), axis=k), name="p")


@summed_axes.rule_for(RightProductOp)
def axes_of_right_product(op):
    return -1, -1


@panel_form.rule_for(RightProductOp)
class RightProductPanels(PanelForm):
    def __init__(self, op):
        self.op = op

    @property
    def extents(self):
        return (*self.op.shape, shape_of(self.op.x)[1])

    def packed(self, width):
        panels = LayoutTransformOp(self.op.w, src="NK", dst=f"NK{width}n")
        return panels, graph.PackedMatmulOp(self.op.x, panels, columns=self.op.shape[1])


@irdl_op_definition
class BlurOp(ContractionOp):
    """x [N, C, H, W] filtered by w [O, C, 3, 3], as many pixels as before."""

    name = "graph.blur"
    FUSION: ClassVar = graph.FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, x, w):
        super().__init__([x, w])

    def infer(self):
        n, _, *space = shape_of(self.x)
        return [tensor([n, shape_of(self.w)[0], *space], self.sum_element())]

    def compute(self, x, w):
        return graph.ConvOp(self.x, self.w, pads=[1] * 4).compute(x, w)

    def tensor_expression(self, x, w):
        return graph.ConvOp(self.x, self.w, pads=[1] * 4).tensor_expression(x, w)


@contraction_in_blocks.rule_for(BlurOp)
def blur_in_blocks(op, layouts):
    outer, inner = (layouts.block_of(n) for n in shape_of(op.w)[:2])
    form = LayoutTransformOp(op.w, src="OIHW", dst=f"OIHW{inner}i{outer}o")
    weights = layouts.insert(form)
    return graph.BlockedConvOp(layouts.blocked(op.x), weights, pads=[1] * 4)


@winograd_form.rule_for(BlurOp)
def blur_by_winograd(op, of_pixels):
    form = WinogradForm(3, 1, 1, (0, 0), (1, 1, 1, 1), of_pixels=True)
    return form if of_pixels else None


for each in ("Mix", "RightProduct", "Blur"):
    register_schema(f"my.company.{each}", inputs=(2, 2))


@handler("my.company.Mix")
def mix(ctx):
    return ctx.emit(MixOp(ctx.input(0), ctx.input(1)))


@handler("my.company.Blur")
def blur(ctx):
    return ctx.emit(BlurOp(ctx.input(0), ctx.input(1)))


@handler("my.company.RightProduct")
def right_product(ctx):
    return ctx.emit(RightProductOp(ctx.input(0), ctx.input(1)))
'''

MIX = """<ir_version: 10, opset_import: ["" : 21, "my.company" : 1]>
net (float[1, 16, 6, 5] x) => (float[1, 32, 6, 5] y) {
  m = my.company.Mix(x, w) r = Relu(m) y = my.company.Mix(r, v)
}"""
PRODUCT = """<ir_version: 10, opset_import: ["" : 21, "my.company" : 1]>
net (float[12, 40] x) => (float[12, 72] y) { p = my.company.RightProduct(x, w) y = Relu(p) }"""

BLUR = """<ir_version: 10, opset_import: ["" : 21, "my.company" : 1]>
net (float[8, 64, 56, 56] x) => (float[8, 64, 56, 56] y) {
  b = my.company.Blur(x, w) y = Relu(b)
}"""
COMPUTED = """<ir_version: 10, opset_import: ["" : 21, "my.company" : 1]>
net (float[16, 40] x, float[24, 40] w) => (float[16, 24] y) {
  s = Constant<value = float {0.03125}>()
  z = Constant<value = uint8 {120}>()
  t = Constant<value = int8 {0}>()
  q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z)
  p = QuantizeLinear(w, s, t) b = DequantizeLinear(p, s, t)
  y = my.company.RightProduct(a, b)
}"""


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "heavy.py"
    path.write_text(PLUGIN)
    load_plugins([path])
    yield path
    unload(path)


def model(text: str, **weights: Sequence[int]) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(text)
    for name, shape in weights.items():
        array = rng.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return proto


def lowered(proto: onnx.ModelProto, target: str = "cpu:haswell") -> str:
    module = import_model(proto)
    for phase in tcopt.pipeline(target)[:2]:
        run_passes(module, phase.passes)
    return str(module)


def test_a_contraction_of_a_plugin_computes_in_blocks(plugin: Path) -> None:
    proto = model(MIX, w=(24, 16), v=(32, 24))
    text = lowered(proto)
    assert text.count("graph.blocked_conv") == 2 and "graph.mix" not in text
    # There is no layout transform between the two.
    assert "graph.relu" in text and "tensor<1x3x6x5x8xf32>" in text
    x = np.random.default_rng(1).standard_normal((1, 16, 6, 5), np.float32)
    w, v = (onnx.numpy_helper.to_array(each) for each in proto.graph.initializer)
    expected = np.einsum("nchw,oc->nohw", np.maximum(np.einsum("nchw,oc->nohw", x, w), 0), v)
    found = tcopt.compile(proto, cache=False, workers=0).run({"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_product_of_a_plugin_is_packed(plugin: Path) -> None:
    proto = model(PRODUCT, w=(72, 40))
    text = lowered(proto)
    assert "graph.packed_matmul" in text and "graph.right_product" not in text
    x = np.random.default_rng(1).standard_normal((12, 40), np.float32)
    (w,) = (onnx.numpy_helper.to_array(each) for each in proto.graph.initializer)
    found = tcopt.compile(proto, cache=False, workers=0).run({"x": x})[0]
    np.testing.assert_allclose(found, np.maximum(x @ w.T, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu:haswell", "cuda:sm_80"])
def test_a_convolution_of_a_plugin_goes_through_tiles(plugin: Path, target: str) -> None:
    proto = model(BLUR, w=(64, 64, 3, 3))
    text = lowered(proto, target)
    kind = "winograd_conv" if target.startswith("cpu") else "winograd_plain_conv"
    assert f"graph.{kind}" in text and "graph.blur" not in text


def test_a_product_of_a_plugin_multiplies_computed_bytes(plugin: Path) -> None:
    proto = model(COMPUTED)
    text = lowered(proto, "cpu:cascadelake")
    (line,) = [line for line in text.splitlines() if "graph.right_product" in line]
    assert "tensor<16x24xi32>" in line and "tensor<24x40xi8>" in text and "i16" not in text
    rng = np.random.default_rng(3)
    x, w = (rng.uniform(-3, 3, shape).astype(np.float32) for shape in ((16, 40), (24, 40)))
    quantized = [np.clip(np.rint(x * 32), -120, 135), np.clip(np.rint(w * 32), -128, 127)]
    expected = quantized[0] @ quantized[1].T / 1024
    found = tcopt.compile(proto, cache=False, workers=0).run({"x": x, "w": w})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
