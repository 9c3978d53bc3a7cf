"""Build a program from a kernel-level module: code generation and weight packing."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.backends.llvm.jit import external_names
from tcopt.backends.llvm.machine.machine import assemble_object, data_layout
from tcopt.backends.llvm.module import emit_module, target_of
from tcopt.dialects.graph.core.donation import (
    IN_PLACE,
    count_in,
    pairs_of,
    rooms_of,
    size_ranges,
)
from tcopt.dialects.origins import number_in, origin_in
from tcopt.dialects.size import buffer_types, extents_of, function_symbols
from tcopt.passes.kernel.checks.instrument import PROFILE
from tcopt.runtime.description import argument_facts
from tcopt.runtime.host_calls import HostCall, as_code_has_it
from tcopt.runtime.loading import argument_table
from tcopt.runtime.profile import TimedKernel
from tcopt.runtime.program import Program, pack_weights
from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.data.strings import TEXT
from tcopt.support.data.structures import Kind
from tcopt.support.errors import PassFailedError
from tcopt.support.host.host_calls import (
    HOST_CALL,
    STRINGS,
    TEXT_INPUTS,
    TEXT_OUTPUTS,
    plain_settings,
)
from tcopt.support.host.host_functions.registry import Form
from tcopt.support.ir.literals import Integers, integers

Array = NDArray[Any]


class ObjectCode(Protocol):
    """An object file with one function, and the C functions that it calls."""

    @property
    def symbol(self) -> str: ...
    @property
    def code(self) -> bytes: ...
    @property
    def externals(self) -> tuple[str, ...]: ...


def build_program(
    module: ModuleOp, weights: MutableMapping[str, Array], kernels: Sequence[ObjectCode] = ()
) -> Program:
    """Generate code for a module with a memory plan, and pack its weights.

    Args:
        module: @main takes inputs, outputs, sizes, weights and workspace; see `plan-memory`.
        weights: values by name; the mapping is emptied, see `pack_weights`.
        kernels: code of the functions that the module only declares.
    Raises:
        PassFailedError: the module has no @main of that form.
        BackendError: code generation failed.
    """
    main = main_of(module)
    target = target_of(module)
    text = emit_module(
        module,
        triple=target.triple,
        data_layout=data_layout(target),
        capabilities=target.capabilities,
    )
    externals = external_names(text).union(*(kernel.externals for kernel in kernels))
    facts = describe(module, main, weights)
    inputs, outputs = (
        [as_code_has_it(spec) for spec in specs] for specs in (facts.inputs, facts.outputs)
    )
    sizes = facts.weights.nbytes, facts.workspace_bytes
    text += argument_table(argument_facts(inputs, outputs, *sizes, facts.sizes))
    calls = host_calls(module)
    numbers = {call.symbol: number for number, call in enumerate(calls)}
    called = (op.callee.string_value() for op in main.walk() if isinstance(op, CallOp))
    return Program(
        target=target,
        objects=[assemble_object(text, target), *(kernel.code for kernel in kernels)],
        externals=sorted(externals - {f.symbol for f in (*kernels, *calls)}),
        inputs=facts.inputs,
        outputs=facts.outputs,
        weights=facts.weights,
        workspace_bytes=facts.workspace_bytes,
        report=facts.report,
        timed=timed_kernels(main),
        host_functions=calls,
        call_order=[numbers[name] for name in called if name in numbers],
        strings=_names(module, STRINGS) if STRINGS in module.attributes else [],
        sizes=facts.sizes,
        checked_sizes=facts.checked_sizes,
    )


def host_calls(module: ModuleOp) -> list[HostCall]:
    """Return the functions that a module declares and Python computes."""
    found: list[HostCall] = []
    for op in module.ops:
        facts = op.attributes.get(HOST_CALL)
        if isinstance(op, FuncOp) and isinstance(facts, DictionaryAttr):
            function, settings = facts.data["function"], facts.data["settings"]
            assert isinstance(function, StringAttr) and isinstance(settings, DictionaryAttr)
            forms = tuple(_form(type_) for type_ in op.function_type.inputs)
            symbol = op.sym_name.data
            found.append(HostCall(symbol, function.data, plain_settings(settings), forms))
    return found


def _form(type_: Attribute) -> Form:
    assert isa(type_, MemRefType)
    return Form(tuple(type_.get_shape()), np.dtype(numpy_dtype(type_.get_element_type())))


@dataclass(frozen=True)
class HostFacts:
    """Facts of a program described by @main, see `runtime.program.Program`."""

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    weights: NDArray[np.uint8]
    workspace_bytes: int
    report: dict[str, int]
    sizes: tuple[Symbol, ...]
    checked_sizes: list[Symbol]


def describe(module: ModuleOp, main: FuncOp, weights: MutableMapping[str, Array]) -> HostFacts:
    """Return the arguments and results of an @main with a memory plan, and pack its weights.

    Args:
        weights: values by name; the mapping is emptied, see `pack_weights`.
    """
    names = [_names(module, "graph.inputs"), _names(module, "graph.outputs")]
    types = list(main.function_type.inputs)
    if timed_kernels(main) is not None:
        types.pop()
    weight_bytes, workspace_bytes = (_bytes(t) for t in types[-2:])
    symbols = function_symbols(main)
    tensors = buffer_types(main)[: len(names[0]) + len(names[1])]
    return HostFacts(
        inputs=_inputs(module, _specs(names[0], tensors[: len(names[0])])),
        outputs=_outputs(module, _specs(names[1], tensors[len(names[0]) :])),
        weights=pack_weights(_weight_layout(main), weights, weight_bytes),
        workspace_bytes=workspace_bytes,
        report=_report(main),
        sizes=symbols,
        checked_sizes=[Symbol(name, *range_) for name, range_ in size_ranges(module).items()],
    )


def timed_kernels(main: FuncOp) -> list[TimedKernel] | None:
    """Return the calls that an instrumented @main times; None if it is not instrumented."""
    entries = main.attributes.get(PROFILE)
    if not isa(entries, ArrayAttr[DictionaryAttr]):
        return None
    return [_timed_kernel(entry) for entry in entries]


def _timed_kernel(entry: DictionaryAttr) -> TimedKernel:
    kernel, size, parallel = (entry.data[name] for name in ("kernel", "bytes", "parallel"))
    assert isinstance(kernel, StringAttr) and isa(parallel, IntegerAttr)
    origin, many = origin_in(entry), bool(parallel.value.data)
    return TimedKernel(
        kernel.data, origin, number_in(size), many, turns=number_in(entry.data["turns"])
    )


def main_of(module: ModuleOp) -> FuncOp:
    """Return the host function of a module with a memory plan.

    Raises:
        PassFailedError: there is none.
    """
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            if "tcopt.weights" in op.attributes:
                return op
            raise PassFailedError("@main has no memory plan", op=op, hint="run plan-memory")
    raise PassFailedError("the module has no function @main")


def _names(module: ModuleOp, attribute: str) -> list[str]:
    names = module.attributes.get(attribute)
    if not isa(names, ArrayAttr[StringAttr]):
        raise PassFailedError(f"the module has no attribute {attribute}")
    return [name.data for name in names]


def _specs(names: list[str], types: list[Attribute]) -> list[TensorSpec]:
    specs: list[TensorSpec] = []
    for name, type_ in zip(names, types, strict=True):
        assert isa(type_, MemRefType)
        dtype = np.dtype(numpy_dtype(type_.get_element_type()))
        specs.append(TensorSpec(name, extents_of(type_), dtype))
    return specs


def _inputs(module: ModuleOp, specs: list[TensorSpec]) -> list[TensorSpec]:
    """Return the inputs; random keys are last."""
    count = len(specs) - count_in(module, "graph.keys")
    own = _in_rooms(module, _with_texts(module, TEXT_INPUTS, specs[:count]))
    return [*own, *(spec._replace(kind=Kind.KEY) for spec in specs[count:])]


def _outputs(module: ModuleOp, specs: list[TensorSpec]) -> list[TensorSpec]:
    """Return the outputs; values of defined sizes and checks are last."""
    checks = len(specs) - count_in(module, "graph.checks")
    sizes = checks - count_in(module, "graph.sizes")
    in_place = pairs_of(module, IN_PLACE)
    own = _in_rooms(module, _with_texts(module, TEXT_OUTPUTS, specs[:sizes]))
    return [
        *(spec._replace(in_place_of=in_place.get(spec.name, "")) for spec in own),
        *(spec._replace(kind=Kind.SIZE) for spec in specs[sizes:checks]),
        *(spec._replace(kind=Kind.CHECK) for spec in specs[checks:]),
    ]


def _in_rooms(module: ModuleOp, specs: list[TensorSpec]) -> list[TensorSpec]:
    """Return the specifications, with the extents of those that are in rooms."""
    rooms = rooms_of(module)
    return [s._replace(shape=rooms[s.name], room=s.shape) if s.name in rooms else s for s in specs]


def _with_texts(module: ModuleOp, attribute: str, specs: list[TensorSpec]) -> list[TensorSpec]:
    """Return the specifications, with the string type for string tensors."""
    if attribute not in module.attributes:
        return specs
    texts = set(_names(module, attribute))
    return [s._replace(dtype=TEXT) if s.name in texts else s for s in specs]


def _bytes(block: Attribute) -> int:
    assert isa(block, MemRefType)
    return block.get_shape()[0]


def _weight_layout(main: FuncOp) -> dict[str, tuple[int, int]]:
    layout = main.attributes["tcopt.weights"]
    assert isinstance(layout, DictionaryAttr)
    places: dict[str, tuple[int, int]] = {}
    for name, place in layout.data.items():
        assert isa(place, Integers)
        offset, size = integers(place)
        places[name] = offset, size
    return places


def _report(main: FuncOp) -> dict[str, int]:
    facts = main.attributes.get("tcopt.memory")
    if not isinstance(facts, DictionaryAttr):
        return {}
    return {name: value.value.data for name, value in facts.data.items() if isa(value, IntegerAttr)}
