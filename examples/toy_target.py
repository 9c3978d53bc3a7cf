"""Custom target in one file: kernels in plain C, built by the C compiler of this machine when a
model is loaded. Run this file, or pass it to any tool:

tcopt-run model.onnx --load examples/toy_target.py --target toy
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from xdsl.dialects.builtin import FloatAttr, IntAttr, IntegerAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import irdl_attr_definition, param_def

from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.target import TargetFacts, VectorUnits
from tcopt.runtime.device.host_memory import HostMemoryDevice
from tcopt.runtime.device.interface import KernelSource
from tcopt.schedules import Schedule
from tcopt.schedules.rules.rule import schedule_rule
from tcopt.support.errors import BackendError, UnsupportedError
from tcopt.support.pipelines.pass_specs import specs
from tcopt.support.pipelines.phases import Phase
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.target_registry import register_target
from tcopt.targets.launched import LaunchedTarget
from tcopt.targets.pipelines import SIMPLIFY, make_phases


@irdl_attr_definition
class ToyFacts(TargetFacts):
    """Hardware description of a toy machine, read by passes and schedule rules."""

    name = "toy.machine"
    DEFAULTS: ClassVar = {"unroll": 1}

    unroll: IntAttr = param_def()

    @property
    def vectors(self) -> VectorUnits | None:
        """The C compiler vectorises unrolled loops, so channels are stored in blocks."""
        return VectorUnits(vector_bits=32 * self.unroll.data) if self.unroll.data > 1 else None


MACHINES: Registry[str, ToyFacts] = Registry("toy", in_keys=True)
MACHINES["plain"] = ToyFacts.of_facts({})
MACHINES["wide"] = ToyFacts.of_facts({"unroll": 4})


@schedule_rule(target="toy", priority=0)
class Unrolled:
    """Unroll the innermost loop of every block by the machine's unroll factor."""

    name = "toy-unrolled"
    provides = (CONTRACTION,)

    def apply(self, sch: Schedule, target: ToyFacts) -> None:
        for block in sch.blocks():
            loops = sch.get_loops(block)
            if loops and target.unroll.data > 1:
                _, inner = sch.split(loops[-1], factors=[None, target.unroll.data])
                sch.unroll(inner)


TYPES = {"f32": "float", "f64": "double", "i32": "int", "i64": "long", "index": "long",
         "i1": "_Bool", "i8": "signed char"}  # fmt: skip

RULES: Registry[str, Callable[..., None]] = Registry("C for")
"""Functions that emit the C of an op, by op name."""


def writes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(rule: Callable[..., None]) -> Callable[..., None]:
        for name in names:
            RULES.add(name, rule)
        return rule

    return register


class Writer:
    """Emitter of the C code of one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}

    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.name not in RULES:
                raise UnsupportedError("the toy target cannot emit C for this op", op=op)
            RULES[op.name](self, op)

    def define(self, value: SSAValue, text: str) -> None:
        self.names[value] = f"v{len(self.names)}"
        self.lines.append(f"{c_type(value.type)} {self.names[value]} = {text};")

    def all(self, values: Sequence[SSAValue]) -> list[str]:
        return [self.names[value] for value in values]

    def element(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        """Return the C expression of an element of a row-major buffer."""
        assert isinstance(buffer.type, MemRefType)
        place = "0"
        for size, index in zip(buffer.type.get_shape(), self.all(indices), strict=True):
            place = f"({place}) * {size} + {index}"
        return f"{self.names[buffer]}[{place}]"


def c_type(type_: Attribute) -> str:
    if str(type_) not in TYPES:
        raise UnsupportedError(f"the toy target has no C type for {type_}")
    return TYPES[str(type_)]


@writes("arith.constant")
def write_constant(w: Writer, op: Any) -> None:
    if not isinstance(op.value, FloatAttr | IntegerAttr):
        raise UnsupportedError("the toy target supports only float and integer constants", op=op)
    value = op.value.value.data
    text = value.hex() if isinstance(value, float) else str(value)
    w.define(op.result, text.replace("inf", "INFINITY").replace("nan", "NAN"))


OPERATORS = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}",
             "maximum": "{0} > {1} || {0} != {0} ? {0} : {1}",
             "minimum": "{0} < {1} || {0} != {0} ? {0} : {1}"}  # fmt: skip


@writes(*(f"arith.{name}f" for name in OPERATORS), "arith.addi", "arith.subi", "arith.muli")
def write_arithmetic(w: Writer, op: Operation) -> None:
    form = OPERATORS[op.name.removeprefix("arith.")[:-1]]
    w.define(op.results[0], form.format(*w.all(op.operands)))


@writes("math.fma", "math.exp", "math.sqrt", "math.tanh", "math.erf")
def write_call(w: Writer, op: Operation) -> None:
    suffix = "f" if str(op.results[0].type) == "f32" else ""
    name = op.name.removeprefix("math.")
    w.define(op.results[0], f"{name}{suffix}({', '.join(w.all(op.operands))})")


COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
"""C operators by the number of MLIR's predicate; those from 6 on compare unsigned."""


@writes("arith.cmpi")
def write_comparison(w: Writer, op: Any) -> None:
    number = op.predicate.value.data
    cast = "(unsigned long)" if number > 5 else ""
    lhs, rhs = w.all(op.operands)
    w.define(op.result, f"{cast}{lhs} {COMPARISONS[number]} {cast}{rhs}")


@writes("arith.andi", "arith.ori", "arith.select")
def write_choice(w: Writer, op: Operation) -> None:
    form = {"arith.andi": "{} & {}", "arith.ori": "{} | {}"}.get(op.name, "{} ? {} : {}")
    w.define(op.results[0], form.format(*w.all(op.operands)))


@writes("scf.if")
def write_if(w: Writer, op: Any) -> None:
    for result in op.results:
        w.names[result] = f"v{len(w.names)}"
        w.lines.append(f"{c_type(result.type)} {w.names[result]};")
    w.lines.append(f"if ({w.names[op.cond]}) {{")
    w.block(op.true_region.block)
    w.lines.append("} else {")
    for block in op.false_region.blocks:
        w.block(block)
    w.lines.append("}")


@writes("scf.yield")
def write_yield(w: Writer, op: Any) -> None:
    for result, value in zip(op.parent_op().results, op.operands, strict=True):
        w.lines.append(f"{w.names[result]} = {w.names[value]};")


@writes("scf.for")
def write_for(w: Writer, op: Any) -> None:
    if op.iter_args:
        raise UnsupportedError("the toy target does not support loop-carried values", op=op)
    index = w.names[op.body.block.args[0]] = f"v{len(w.names)}"
    first, end, step = w.all((op.lb, op.ub, op.step))
    w.lines.append(f"for (long {index} = {first}; {index} < {end}; {index} += {step}) {{")
    w.block(op.body.block)
    w.lines.append("}")


@writes("memref.load")
def write_load(w: Writer, op: Any) -> None:
    w.define(op.res, w.element(op.memref, op.indices))


@writes("memref.store")
def write_store(w: Writer, op: Any) -> None:
    w.lines.append(f"{w.element(op.memref, op.indices)} = {w.names[op.value]};")


@writes("memref.alloca")
def write_alloca(w: Writer, op: Any) -> None:
    type_ = op.memref.type
    count = max(1, type_.element_count())
    name = w.names[op.memref] = f"v{len(w.names)}"
    w.lines.append(f"{c_type(type_.get_element_type())} {name}[{count}];")


@writes("func.return")
def write_nothing(w: Writer, op: Operation) -> None:
    pass


def write_function(function: FuncOp) -> str:
    writer = Writer()
    parameters: list[str] = []
    for value in function.body.block.args:
        assert isinstance(value.type, MemRefType)
        name = writer.names[value] = f"v{len(writer.names)}"
        parameters.append(f"{c_type(value.type.get_element_type())} *{name}")
    writer.block(function.body.block)
    head = f"void {function.sym_name.data}({', '.join(parameters)})"
    return "\n".join([head, "{", *writer.lines, "}", ""])


class CDevice(HostMemoryDevice):
    """Device that runs kernels built by the C compiler of this machine, in host memory."""

    name = "toy"

    def load(self, sources: Sequence[KernelSource]) -> Mapping[str, Any]:
        text = "#include <math.h>\n" + "\n".join(source.text for source in sources)
        with tempfile.TemporaryDirectory() as folder:
            library = str(Path(folder) / "kernels.so")
            command = ["cc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-x", "c", "-",
                       "-o", library, "-lm"]  # fmt: skip
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BackendError(f"the C compiler rejects the kernels: {done.stderr}")
            code = ctypes.CDLL(library)
        names = [name for source in sources for name in source.kernels]
        return {name: self._caller(code[name]) for name in names}

    def _caller(self, function: Any) -> Callable[..., None]:
        def run(launch: object, arguments: Sequence[Any]) -> None:
            function(*(ctypes.c_void_p(part.ctypes.data) for part in arguments))

        return run


GRAPH = specs(
    *SIMPLIFY, "convert-layout", "pack-matmul", "fold-constants", "canonicalize", "fuse-ops"
)
KERNEL = specs(
    "compact-buffers", "lower-blocks", "unroll-loops", "hoist-workspace",
    "lower-loop-to-kernel", "dce", "plan-memory",
)  # fmt: skip


@register_target
class Toy(LaunchedTarget):
    """Target kind whose kernels are C functions."""

    name = "toy"
    facts = ToyFacts
    machines = MACHINES

    def pipeline(self, machine: str, accuracy: str, precision: str) -> list[Phase]:
        return make_phases(self.set_target(machine), GRAPH, KERNEL, accuracy, precision)

    def source(self, module: ModuleOp) -> str:
        functions = [op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks]
        return "\n".join(write_function(op) for op in functions if op.sym_name.data != "main")

    def device(self) -> CDevice:
        return CDevice()


def main() -> int:
    """Print the C of a small network for the machine `wide`."""
    from tcopt.support.pipelines.phases import pipeline_text
    from tcopt.tools import tcopt

    passes = pipeline_text(Toy().pipeline("wide", "default", "f32"))
    dense = Path(__file__).with_name("dense.mlir")
    return tcopt.main([str(dense), "-p", passes, "-t", "toy"])


if __name__ == "__main__":
    sys.exit(main())
