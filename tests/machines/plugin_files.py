"""Plugins in a folder outside of the tree, one of each kind, for tests with the cache on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import tcopt
from tcopt.support.registries.plugins import (
    unload,
)
from tcopt.support.registries.registration import is_extended

CUBE = '''
"""An op of the kernel level, its meaning and its code, and an attribute."""
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import (IRDLOperation, irdl_attr_definition, irdl_op_definition, operand_def,
                       param_def, result_def)
from xdsl.traits import Pure
from xdsl.irdl import traits_def

from tcopt.backends.llvm.emit.registry import emits
from tcopt.interpreters.meanings import meaning


@irdl_attr_definition
class TagAttr(ParametrizedAttribute):
    name = "demo.tag"
    number: IntAttr = param_def()


@irdl_op_definition
class CubeOp(IRDLOperation):
    name = "demo.cube"
    x = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `->` type($result)"


@meaning(CubeOp)
def cube(op, x):
    return x * x * x


@emits(CubeOp)
def emit_cube(e, op):
    x = e.value(op.x)
    square = e.assign(f"fmul float {x}, {x}")
    e.define(op.result, e.assign(f"fmul float {square}, {x}"))
'''

LOOP = """
loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    loop.block "y" (%v: spatial 4 = %i) {
      %0 = loop.load %x[%v] : memref<4xf32>
      %1 = demo.cube %0 : f32 -> f32
      loop.store %1, %y[%v] : memref<4xf32>
    }
  }
}
"""

GATE = '''
"""An operator of the graph level, and of ONNX in a domain of its own."""
import numpy as np
from xdsl.irdl import irdl_op_definition

from tcopt.dialects.graph.elementwise.base import UnaryOp
from tcopt.frontends.onnx.nodes.contrib import register_schema
from tcopt.frontends.onnx.context.registry import handler


@irdl_op_definition
class TripleOp(UnaryOp):
    """3 * x"""

    name = "graph.triple"

    def compute(self, x):
        return x * 3


register_schema("my.company.Triple")


@handler("my.company.Triple")
def triple(ctx):
    return ctx.emit(TripleOp(ctx.input(0)))
'''

RULE = """
from tcopt.schedules.rules.rule import schedule_rule


@schedule_rule(target="cpu", priority=9999)
class Untouched:
    name = "untouched"

    def apply(self, sch, target):
        return None
"""

PASS = '''
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.passes import ModulePass

from tcopt.dialects import graph


@dataclass(frozen=True)
class SigmoidForTanh(ModulePass):
    """Another function in place of tanh."""

    name = "sigmoid-for-tanh"

    def apply(self, ctx, op):
        for inner in list(op.walk()):
            if isinstance(inner, graph.TanhOp):
                new = graph.SigmoidOp(inner.x)
                inner.parent_block().insert_op_before(new, inner)
                inner.results[0].replace_all_uses_with(new.results[0])
                inner.detach()
                inner.erase()
'''

SCALED = """
from xdsl.dialects import math

from tcopt.passes.kernel.math.polynomials.builder import expands


@expands(math.ExpOp)
def mine(b, x):
    return b.add(x, {number})
"""
"""Exp is a sum."""

X = np.linspace(-1, 1, 4, dtype=np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder outside of the tree, a cache that keeps programs, and no plugin at the end."""
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TCOPT_CACHE", "1")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        unload(path)
    assert not is_extended()


def plugin(text: str, name: str = "plugin") -> Path:
    path = Path(f"{name}.py")
    path.write_text(text)
    return path


def model(operator: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21, "my.company" : 1]>
net (float[4] x) => (float[4] y) {{ z = {operator}(x) y = Neg(z) }}""")


def run(operator: str, **options: object) -> np.ndarray:
    return tcopt.compile(model(operator), **options).run({"x": X})[0]  # pyright: ignore
