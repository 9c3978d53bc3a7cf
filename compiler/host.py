"""The host function @main of a model, which calls separately compiled kernels.

When its memory is planned, its kernels are declarations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IndexType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser

from tcopt.backends.llvm.module import SYMBOL_ATTRIBUTE
from tcopt.compiler.kernel import Kernel
from tcopt.compiler.passes import shared_context
from tcopt.compiler.units import KernelFunction
from tcopt.dialects import loop, te
from tcopt.dialects.sched import SequenceOp
from tcopt.dialects.size import function_symbols, set_function_symbols
from tcopt.passes.kernel.checks.instrument import PARALLEL_ATTRIBUTE
from tcopt.passes.loop.bufferize.hoist_workspace import pass_buffers
from tcopt.passes.loop.bufferize.stage_nests import memref_of
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.host.host_calls import HOST_CALL, settings_attribute
from tcopt.support.syntax.canonical_text import symbol_name


def take_kernels(module: ModuleOp) -> dict[str, KernelFunction]:
    """Remove the kernels from a module, leaving declarations so that their names stay reserved.

    Returns:
        The kernels by name, in their order in the module.
    """
    kernels: dict[str, KernelFunction] = {}
    for op in list(module.ops):
        if isinstance(op, KernelFunction):
            name = symbol_name(op)
            stub = _declaration(name, _buffers_of(op), function_symbols(op))
            module.body.block.insert_op_before(stub, op)
            op.detach()
            kernels[name] = op
    return kernels


def take_sequences(module: ModuleOp) -> dict[str, SequenceOp]:
    """Remove the schedules of functions from a module; return them by function name."""
    found: dict[str, SequenceOp] = {}
    for op in list(module.ops):
        if isinstance(op, SequenceOp):
            op.detach()
            found[op.function.string_value()] = op
    return found


def declare_kernels(module: ModuleOp, kernels: Mapping[str, Kernel]) -> None:
    """Add the workspace buffers to kernel calls, and types and symbols to the declarations."""
    types = _TypeReader()
    for host in module.ops:
        if isinstance(host, func.FuncOp):
            for call in [op for op in host.walk() if isinstance(op, loop.CallOp)]:
                name = call.callee.string_value()
                if name not in kernels:
                    continue  # A function that the runtime defines.
                workspace = [types.read(text) for text in kernels[name].workspace]
                if workspace:
                    pass_buffers(call, workspace)
    for op in list(module.ops):
        if isinstance(op, func.FuncOp) and (name := op.sym_name.data) in kernels:
            symbols = function_symbols(op)
            buffers = op.function_type.inputs.data[: len(op.function_type.inputs) - len(symbols)]
            workspace = [types.read(text) for text in kernels[name].workspace]
            declaration = _declaration(name, (*buffers, *workspace), symbols)
            called = kernels[name].host_call
            if called is None:
                declaration.attributes[SYMBOL_ATTRIBUTE] = StringAttr(kernels[name].symbol)
            else:
                function, settings = called
                declaration.attributes[HOST_CALL] = DictionaryAttr(
                    {"function": StringAttr(function), "settings": settings_attribute(settings)}
                )
            if kernels[name].parallel:
                declaration.attributes[PARALLEL_ATTRIBUTE] = UnitAttr()
            module.body.block.insert_op_before(declaration, op)
            op.detach()
            op.erase()


def _buffers_of(function: KernelFunction) -> list[Attribute]:
    """Return the types of the buffers that a call of a kernel passes."""
    if isinstance(function, te.FuncOp):
        tensors = (*function.tensor_arguments, *function.outputs)
        return [memref_of(value.type) for value in tensors]
    types = list(function.function_type.inputs)
    return types[: len(types) - len(function_symbols(function))]


def _declaration(name: str, buffers: Sequence[Attribute], symbols: Sequence[Symbol]) -> func.FuncOp:
    """Return the declaration of a kernel, which takes buffers and an index for each size."""
    declaration = func.FuncOp.external(name, [*buffers, *(IndexType() for _ in symbols)], [])
    set_function_symbols(declaration, symbols)
    return declaration


class _TypeReader:
    """Parses memref types, each text once."""

    def __init__(self) -> None:
        self._known: dict[str, Attribute] = {}
        self._context = shared_context()

    def read(self, text: str) -> Attribute:
        if text not in self._known:
            self._known[text] = Parser(self._context, text).parse_type()
        return self._known[text]
