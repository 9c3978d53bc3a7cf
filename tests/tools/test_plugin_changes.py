"""One registered object of each kind is changed in a plugin between two compiles with the cache on:
the change takes effect, and earlier cache entries are found again when it is undone."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import tcopt
from machines.plugin_files import folder
from tcopt.compiler.program_cache import wait_for_writers
from tcopt.support.registries.plugins import unload
from tcopt.support.registries.registration import is_extended

__all__ = ["folder"]

UNARY = """<ir_version: 10, opset_import: ["" : 21, "my.company" : 1]>
net (float[4] x) => (float[4] y) {{ {} }}"""
PRODUCT = """<ir_version: 10, opset_import: ["" : 21]>
net (float[8, 32] x, float[32, 64] w) => (float[8, 64] y) { y = MatMul(x, w) }"""


@dataclass(frozen=True)
class Kind:
    """A kind of registered object.

    Attributes:
        text: source of a plugin with such an object, in which `NUMBER` is 1.0 or 2.0.
        model: the compiled model.
        options: compile options.
    """

    text: str
    model: str = UNARY.format("y = Exp(x)")
    options: dict[str, Any] = field(default_factory=dict)


EMITTER = """
from tcopt.backends.{module} import {decorator}
from xdsl.dialects import {dialect}


@{decorator}({dialect}.{op})
def mine({arguments}):
    {body}
"""


def emitter(module: str, decorator: str, body: str, target: str, arguments: str = "e, op") -> Kind:
    text = EMITTER.format(
        module=module,
        decorator=decorator,
        dialect="arith",
        op="NegfOp",
        arguments=arguments,
        body=body,
    )
    return Kind(text, UNARY.format("y = Neg(x)"), {"target": target})


LLVM_NEGATION = 'e.define(op.result, e.assign(f"fmul float {e.value(op.operand)}, NUMBER"))'
VECTOR_NEGATION = (
    "v = e.value(op.operand); from tcopt.backends.llvm.emit.types import llvm_type; "
    't = llvm_type(op.result.type); one = e.assign(f"fadd {t} {v}, {v}"); '
    'e.define(op.result, one if NUMBER == 1.0 else e.assign(f"fadd {t} {one}, {v}"))'
)

KINDS = {
    "schedule rule": Kind("""
from tcopt.schedules.rules.rule import schedule_rule


@schedule_rule(target="cpu", priority=9999)
class Mine:
    name = "mine"

    def apply(self, sch, target):
        for block in sch.blocks():
            sch.unroll(sch.split(sch.get_loops(block)[-1], factors=[None, int(2 * NUMBER)])[1])
"""),
    "facts for rules": Kind(
        """
from dataclasses import replace
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.rule import FACTS



def facts(target):
    return replace(CpuFacts.of(target), vector_bits=128, registers=int(8 * NUMBER))


FACTS["cpu"] = facts
""",
        PRODUCT,
        {"target": "cpu:haswell"},
    ),
    "intrinsic": Kind(
        """
from xdsl.dialects import arith

from tcopt.dialects.intrinsics import Intrinsic, register
from tcopt.dialects.simd import DotOp
from tcopt.dialects.te import api as te


def behaviour(a, b):
    p = te.reduce_axis(4, "p")
    return te.compute((), lambda: te.sum(te.cast(a[p], "f32") * te.cast(b[p], "f32"), axis=p))


def lower(acc, a, b):
    if NUMBER == 1.0:
        return [DotOp(acc, a, b)]
    minus = arith.NegfOp(a)
    return [minus, DotOp(acc, minus.result, b)]


register(Intrinsic("mine", inputs={"a": ((4,), "bf16"), "b": ((4,), "bf16")},
                   behaviour=behaviour, lowering=lower, requires=[{"x86_64"}]))
""",
        PRODUCT,
        {"precision": "bf16", "target": "cpu:haswell"},
    ),
    "emitter of LLVM": emitter("llvm.emit.registry", "emits", VECTOR_NEGATION, "cpu:haswell"),
    "emitter of OpenCL C": emitter(
        "opencl.emit.registry",
        "writes",
        'k.pure(op, k.binary("-" if NUMBER == 1.0 else "+", op.operand, op.operand))',
        "opencl",
        "k, op",
    ),
    "emitter of PTX": emitter("ptx.registry", "emits_ptx", LLVM_NEGATION, "cuda:sm_80"),
    "math expansion": Kind("""
from xdsl.dialects import math
from tcopt.passes.kernel.math.polynomials.builder import expands


@expands(math.ExpOp)
def mine(b, x):
    return b.add(x, NUMBER)
"""),
    "ONNX handler": Kind(
        """
import numpy as np
from tcopt.dialects import graph
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.nodes.contrib import register_schema

register_schema("my.company.Shift")


@handler("my.company.Shift")
def shift(ctx):
    return ctx.emit(graph.AddOp(ctx.input(0), ctx.builder.constant(np.float32(NUMBER))))
""",
        UNARY.format("y = my.company.Shift(x)"),
    ),
    "schema": Kind(
        """
import numpy as np
from tcopt.dialects import graph
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.nodes.contrib import register_schema

register_schema("my.company.Shift", attributes={"by": NUMBER})


@handler("my.company.Shift")
def shift(ctx):
    by = ctx.builder.constant(np.float32(ctx.get_float("by")))
    return ctx.emit(graph.AddOp(ctx.input(0), by))
""",
        UNARY.format("y = my.company.Shift(x)"),
    ),
    "graph op": Kind(
        """
from xdsl.irdl import irdl_op_definition
from tcopt.dialects.graph.elementwise.base import UnaryOp
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.nodes.contrib import register_schema


@irdl_op_definition
class ScaleOp(UnaryOp):
    name = "graph.scale_of_a_test"

    def compute(self, x):
        return x * NUMBER


register_schema("my.company.Scale")


@handler("my.company.Scale")
def scale(ctx):
    return ctx.emit(ScaleOp(ctx.input(0)))
""",
        UNARY.format("y = my.company.Scale(x)"),
    ),
    "pass": Kind(
        """
from dataclasses import dataclass

from xdsl.passes import ModulePass

from tcopt.dialects import graph
from tcopt.passes.graph.fusion.fuse_ops import FuseOpsPass


@dataclass(frozen=True)
class FuseOps(FuseOpsPass):
    name = "fuse-ops"
    max_ops: int = int(NUMBER)
""",
        UNARY.format("a = Exp(x) y = Neg(a)"),
    ),
    "pass that is inserted": Kind(
        """
from dataclasses import dataclass

from xdsl.passes import ModulePass

from tcopt.dialects import graph


@dataclass(frozen=True)
class Mine(ModulePass):
    name = "mine"

    def apply(self, ctx, op):
        for inner in list(op.walk()):
            if isinstance(inner, graph.ExpOp):
                new = (graph.TanhOp if NUMBER == 1.0 else graph.SigmoidOp)(inner.x)
                inner.parent_block().insert_op_before(new, inner)
                inner.results[0].replace_all_uses_with(new.results[0])
                inner.detach()
                inner.erase()
""",
        options={"passes": {"before:fuse-ops": "mine"}},
    ),
    "target": Kind(
        """
from tcopt.support.pipelines.pass_specs import specs
from tcopt.support.pipelines.phases import with_passes
from tcopt.support.registries.target_registry import register_target
from tcopt.targets.opencl import OpenCLKind


@register_target
class Mine(OpenCLKind):
    name = "mine"

    @property
    def machines(self):
        return super().machines

    def source(self, module):
        return f"// {NUMBER}\\n{super().source(module)}"
""",
        options={"target": "mine"},
    ),
    "memory scope": Kind(
        """
from tcopt.dialects.loop.scopes import Scope, Sharing, register_scope
from tcopt.schedules.rules.rule import schedule_rule

SCRATCH = register_scope(Scope("scratch_of_a_test", Sharing.ALL, in_registers=NUMBER == 2.0))


@schedule_rule(target="cpu", priority=9999)
class Mine:
    name = "mine"

    def apply(self, sch, target):
        block = sch.blocks()[-1]
        sch.cache_write(block, "scratch_of_a_test")
""",
    ),
    "named CPU": Kind(
        """
from dataclasses import replace
from tcopt.targets.cpu import MACHINES

MACHINES["mine"] = replace(MACHINES["haswell"], vector_bits=128 * int(NUMBER))
""",
        options={"target": "cpu:mine"},
    ),
    "named device": Kind(
        """
from tcopt.targets.opencl import DEVICES

DEVICES["mine"] = DEVICES["mali" if NUMBER == 1.0 else "opencl"]
""",
        PRODUCT,
        {"target": "opencl:mine"},
    ),
}


class Plugin:
    """A plugin of a kind, as a file or as an installed package with the object in one of its
    modules."""

    def __init__(self, kind: Kind, root: Path, packaged: bool):
        self._text = kind.text
        package = root / "site" / "mine_of_a_test"
        self._file = package / "parts.py" if packaged else root / "mine.py"
        self.name: str | Path = "mine-of-a-test" if packaged else self._file
        if packaged:
            package.mkdir(parents=True)
            (package / "__init__.py").write_text("")
            (package / "plugin.py").write_text("from .parts import *\n")
            facts = root / "site" / "mine_of_a_test-1.0.dist-info"
            facts.mkdir()
            (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
            entry = "[tcopt.plugins]\nmine-of-a-test = mine_of_a_test.plugin\n"
            (facts / "entry_points.txt").write_text(entry)

    def write(self, number: float) -> None:
        self._file.write_text(self._text.replace("NUMBER", str(number)))


@pytest.fixture(params=["file", "package"])
def make(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Kind], Plugin]]:
    made: list[Plugin] = []
    packaged = request.param == "package"

    def plugin(kind: Kind) -> Plugin:
        made.append(Plugin(kind, folder, packaged))
        if packaged:
            monkeypatch.syspath_prepend(folder / "site")
        return made[-1]

    yield plugin
    for each in made:
        unload(each.name)
    assert not is_extended()
    assert not any(name.startswith("mine_of_a_test") for name in sys.modules)


def made_by(kind: Kind, name: str | Path) -> tuple[bool, object]:
    """Return whether the model was a cache hit, and its code."""
    compiled = tcopt.compile(
        onnx.parser.parse_model(kind.model), plugins=[name], workers=0, **kind.options
    )
    wait_for_writers()
    program: Any = compiled.program
    if hasattr(program, "objects"):
        return program.cached, program.objects
    # For device programs, kernels are cached.
    return program.kernels_compiled == 0, [source.text for source in program.sources]


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_seen(kind: str, make: Callable[[Kind], Plugin]) -> None:
    if kind == "intrinsic" and platform.machine() != "x86_64":
        pytest.skip("the intrinsic is one of x86-64")
    plugin = make(KINDS[kind])
    codes: list[object] = []
    for number, known in ((1.0, False), (2.0, False), (1.0, True), (2.0, True)):
        plugin.write(number)
        found, code = made_by(KINDS[kind], plugin.name)
        assert found == known
        codes.append(code)
    assert codes[0] == codes[2] and codes[1] == codes[3]
    assert codes[0] != codes[1]
