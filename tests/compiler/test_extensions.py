"""The next compile sees every extension of the compiler that a program makes.

Each kind of extension is made between two compiles of one model with the cache on. The second
compile must show it, the next one must not, and nothing of it may stay in the cache.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, numpy_helper
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

import tcopt
from tcopt.backends.llvm.emit import registry as llvm_rules
from tcopt.backends.llvm.emit.types import llvm_type
from tcopt.backends.opencl.emit import registry as opencl_rules
from tcopt.backends.ptx import registry as ptx_rules
from tcopt.compiler import fingerprint
from tcopt.compiler.program_cache import wait_for_writers
from tcopt.dialects import graph
from tcopt.dialects.intrinsics import INTRINSICS, Intrinsic
from tcopt.dialects.simd import DotOp
from tcopt.dialects.te import api as te
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import HANDLERS
from tcopt.frontends.onnx.context.registry import _Entry as HandlerEntry
from tcopt.frontends.onnx.nodes.sequences import SEQUENCE_HANDLERS
from tcopt.passes.kernel.math.polynomials.builder import EXPANSIONS, FloatBuilder
from tcopt.schedules import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.rule import FACTS, RULES
from tcopt.support.registries.registration import extensions, is_extended
from tcopt.support.registries.registry import PASSES
from tcopt.support.remarks import collect_remarks
from tcopt.targets.cpu import MACHINES
from tcopt.targets.opencl import DEVICES

MODEL = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
small (float[8, 32] x) => (float[8, 64] y) {
    p = MatMul(x, w)
    r = Relu(p)
    e = Exp(r)
    l = SequenceConstruct(e, r)
    i = Constant<value_int = 0>()
    s = SequenceAt(l, i)
    y = Add(s, r)
}""")
WEIGHT = np.random.default_rng(0).random((32, 64), np.float32)
MODEL.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private cache that stores programs."""
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TCOPT_CACHE", "1")
    return tmp_path / "cache"


# Changes that programs make, each as a context manager around the changed compiler.


class Untouched:
    """Rule that accepts every function and leaves its loops unchanged."""

    name = "untouched"

    def apply(self, sch: Schedule, target: object) -> None:
        return None


@dataclass(frozen=True)
class FuseNothing(ModulePass):
    """Replacement for `fuse-ops` in which each operator is a group."""

    name = "fuse-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from tcopt.passes.graph.fusion.fuse_ops import FuseOpsPass

        FuseOpsPass(max_ops=1).apply(ctx, op)


def narrow_facts(target: Any) -> CpuFacts:
    return replace(CpuFacts.of(target), vector_bits=128, registers=16)


def add_instead(e: Any, op: Operation) -> None:
    lhs, rhs = (e.value(operand) for operand in op.operands)
    e.define(op.results[0], e.assign(f"fadd {llvm_type(op.results[0].type)} {lhs}, {rhs}"))


def write_difference(k: Any, op: Operation) -> None:
    k.pure(op, k.binary("-", *op.operands))


def one_and_x(b: FloatBuilder, x: SSAValue) -> SSAValue:
    return b.add(x, 1.0)


def as_sigmoid(ctx: NodeContext) -> SSAValue:
    return ctx.emit(graph.SigmoidOp(ctx.input(0)))


def always_the_last(ctx: NodeContext, operands: Any) -> Any:
    return operands[0].items[-1]


@contextmanager
def an_intrinsic() -> Iterator[None]:
    def behaviour(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        p = te.reduce_axis(4, "p")
        return te.compute((), lambda: te.sum(te.cast(a[p], "f32") * te.cast(b[p], "f32"), axis=p))

    def negative(acc: SSAValue, a: SSAValue, b: SSAValue) -> list[Operation]:
        minus = arith.NegfOp(a)
        return [minus, DotOp(acc, minus.result, b)]

    dot = Intrinsic(
        "dot_of_a_test",
        inputs={"a": ((4,), "bf16"), "b": ((4,), "bf16")},
        behaviour=behaviour,
        lowering=negative,
        requires=[{"x86_64"}],
    )
    with INTRINSICS.override(dot.name, dot):
        yield


def relu_handler() -> Any:
    key = next(k for k, e in HANDLERS.items() if k[0] == "Relu" and e.since <= 21 < e.until)
    return HANDLERS.override(key, HandlerEntry(key[1], 99, as_sigmoid))


HOST = "cpu"
OTHER = "cpu:haswell"
CHANGES: dict[str, tuple[Callable[[], Any], dict[str, str]]] = {
    "schedule rule": (lambda: RULES.override((HOST, "untouched"), (9999, Untouched())), {}),
    "target facts": (lambda: FACTS.override(HOST, narrow_facts), {"target": OTHER}),
    "intrinsic": (an_intrinsic, {"precision": "bf16", "target": OTHER}),
    "expansion": (lambda: EXPANSIONS.override(arith_exp(), one_and_x), {}),
    "emit rule": (lambda: llvm_rules.rules.override("arith.subf", add_instead), {}),
    "OpenCL rule": (
        lambda: opencl_rules.rules.override("arith.addf", write_difference),
        {"target": "opencl"},
    ),
    "PTX rule": (
        lambda: ptx_rules.rules.override("arith.subf", add_instead),
        {"target": "cuda:sm_80"},
    ),
    "LLVM rule of a device": (
        lambda: llvm_rules.rules.override("arith.subf", add_instead),
        {"target": "cuda:sm_80"},
    ),
    "ONNX handler": (relu_handler, {}),
    "handler of sequences": (
        lambda: SEQUENCE_HANDLERS.override("SequenceAt", always_the_last),
        {},
    ),
    "pass": (lambda: PASSES.override("fuse-ops", lambda: FuseNothing), {}),
    "named CPU": (
        lambda: MACHINES.override("haswell", replace(MACHINES["haswell"], vector_bits=128)),
        {"target": OTHER},
    ),
    "named device": (
        lambda: DEVICES.override("mali", DEVICES["opencl"]),
        {"target": "opencl:mali"},
    ),
}
IN_KEYS = ("named CPU", "named device")
"""Kinds whose entries are completely described by the key."""


def arith_exp() -> type[Operation]:
    from xdsl.dialects import math

    return math.ExpOp


def code_of(model: ModelProto, options: dict[str, str]) -> object:
    compiled = tcopt.compile(model, **options, workers=0)
    program: Any = compiled.program
    wait_for_writers()
    if hasattr(program, "objects"):
        return program.objects
    return [source.text for source in program.sources], program.steps


def stored(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


_before: dict[str, object] = {}


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_between_two_compiles_is_seen(kind, folder):
    change, options = CHANGES[kind]
    if kind == "intrinsic" and platform.machine() != "x86_64":
        pytest.skip("the intrinsic is one of x86-64")
    assert not is_extended(), list(extensions())
    before = code_of(MODEL, options)
    kept = stored(folder)
    assert kept
    with change():
        assert is_extended() == (kind not in IN_KEYS)
        changed = code_of(MODEL, options)
        if kind not in IN_KEYS:
            assert stored(folder) == kept
    assert changed != before
    assert not is_extended()
    assert code_of(MODEL, options) == before


def test_a_change_before_the_first_compile_is_not_kept(folder):
    """Extensions of a process leave nothing in the cache."""
    with EXPANSIONS.override(arith_exp(), one_and_x):
        code_of(MODEL, {})
    assert not folder.exists()


def test_a_change_before_a_later_shape_is_seen(folder):
    """A model with dynamic shapes is compiled again at a run."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
    open (float[n] x) => (float[n] y) { y = Exp(x) }""")
    feeds = {"x": np.linspace(0, 1, 7, dtype=np.float32)}
    np.testing.assert_allclose(tcopt.compile(model).run(feeds)[0], np.exp(feeds["x"]), rtol=1e-5)
    wait_for_writers()
    again = tcopt.compile(model)
    with EXPANSIONS.override(arith_exp(), one_and_x):
        np.testing.assert_allclose(again.run(feeds)[0], feeds["x"] + 1, rtol=1e-6)
    np.testing.assert_allclose(tcopt.compile(model).run(feeds)[0], np.exp(feeds["x"]), rtol=1e-5)


def test_workers_are_not_used_with_a_change():
    with EXPANSIONS.override(arith_exp(), one_and_x), collect_remarks() as remarks:
        changed = tcopt.compile(MODEL, cache=False, workers=2).program.objects
        alone = tcopt.compile(MODEL, cache=False, workers=0).program.objects
    assert changed == alone != tcopt.compile(MODEL, cache=False, workers=2).program.objects
    told = next(remark for remark in remarks if remark.by == "cache")
    assert "expansion of" in told.message and __file__ in told.message


_PLUGIN = """
from xdsl.dialects import math
from tcopt.passes.kernel.math.polynomials import exponential
from tcopt.passes.kernel.math.polynomials.builder import expands
{first}
@expands(math.ExpOp)
def mine(b, x):
    return b.add(x, {number})
"""

_PROCESS = """
import sys
if len(sys.argv) > 2:
    exec(compile(open(sys.argv[2]).read(), sys.argv[2], "exec"))
import numpy as np, tcopt
x = np.full((8, 32), 0.1, np.float32)
model = tcopt.compile(sys.argv[1])
print(model.program.cached, model.run({"x": x})[0][0, 0])
"""


@pytest.mark.nightly
def test_other_processes_see_their_own_extensions_only(tmp_path):
    """A plugin file whose behaviour changes with its content, alternating with no plugin."""
    model = tmp_path / "model.onnx"
    onnx.save(MODEL, model)
    plugin = tmp_path / "plugin.py"

    def told(*arguments: object) -> tuple[str, float]:
        command = [sys.executable, "-c", _PROCESS, str(model), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        cached, number = done.stdout.split()
        return cached, float(number)

    total = float(0.1 * WEIGHT[:, 0].sum())
    # The package's own expansion is registered before or after the plugin's.
    for number, first in ((1, ""), (3, "import tcopt.passes.kernel.math.polynomials.exponential")):
        plugin.write_text(_PLUGIN.format(number=float(number), first=first))
        cached, value = told(plugin)
        assert cached == "False" and value == pytest.approx(2 * total + number, rel=1e-5)
    cached, value = told()
    assert cached == "False" and value == pytest.approx(np.exp(total) + total, rel=1e-5)
    assert tcopt.compile(model).program.cached


def test_files_of_the_package_that_change_end_the_cache(folder, monkeypatch):
    """Code in memory must match the files that keys are computed from."""
    code_of(MODEL, {})
    kept = stored(folder)
    assert kept and fingerprint.is_plain()
    # The package was imported before its files had this content.
    monkeypatch.setattr(fingerprint, "IMPORTED_NS", max(fingerprint._hashed.values()) - 1)
    assert not fingerprint.is_plain()
    assert not tcopt.compile(MODEL).program.cached
    wait_for_writers()
    assert stored(folder) == kept


def test_files_that_change_after_they_were_hashed_are_seen_before_a_write(monkeypatch, tmp_path):
    assert fingerprint.is_plain(on_disk=True)
    new = tmp_path / "new.py"
    new.write_text("")
    for path in (new, tmp_path / "gone.py"):
        with monkeypatch.context() as patch:
            patch.setitem(fingerprint._hashed, str(path), 0)
            assert fingerprint.is_plain() and not fingerprint.is_plain(on_disk=True)


def test_the_fingerprint_is_of_every_file_but_those_of_tools():
    fingerprint.program_fingerprint()
    root = Path(tcopt.__file__).parent
    for name in (
        "interpreters/te.py",
        "backends/llvm/pool/pool_linux.ll",
        "frontends/onnx/model/wire.py",
    ):
        assert str(root / name) in fingerprint._hashed
    assert not any(path.startswith(str(root / "tuner")) for path in fingerprint._hashed)
