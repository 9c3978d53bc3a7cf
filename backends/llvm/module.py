"""Assembly of functions, globals and C entry points to the LLVM IR text of a module.

Every function with a body becomes `@tcopt.<name>`, which takes bare pointers for memrefs. A public
function also gets an entry point `i32 @tcopt_<name>(ptr args)` for C, with an array of pointers:
to the data of a memref argument, or to the value of a scalar. It returns 0, or the reason why it
stopped early (see `stops.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.dialects.memref import GlobalOp
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.backends.llvm.emit.emitter import FunctionEmitter, ModuleState
from tcopt.backends.llvm.emit.names import entry_symbol, external_symbol, global_symbol, symbol_of
from tcopt.backends.llvm.emit.types import byte_size, is_bool, llvm_type, memory_type
from tcopt.backends.llvm.machine.host import default_target
from tcopt.backends.llvm.ops.func import emit_return
from tcopt.backends.llvm.ops.memref import memref_bytes
from tcopt.backends.llvm.pool.text import STOP_VARIABLE
from tcopt.dialects.target import cpu_target_of
from tcopt.support.errors import UnsupportedError
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.machines.cpu_target import CpuTarget

SYMBOL_ATTRIBUTE = "tcopt.symbol"
"""Attribute of a declaration: the symbol of the function; by default its name."""

_METADATA = """!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
!2 = !{i32 1}
!3 = !{!"branch_weights", i32 1, i32 2000}"""


def target_of(module: ModuleOp) -> CpuTarget:
    """Return the target CPU of a module; by default this machine."""
    named = cpu_target_of(module)
    return default_target() if named is None else named.values()


def emit_module(
    module: ModuleOp,
    *,
    triple: str = "",
    data_layout: str = "",
    capabilities: frozenset[str] = frozenset(),
    export_private: bool = True,
) -> str:
    """Return the LLVM IR text of a kernel-level module.

    Args:
        triple, data_layout: included in the module if given.
        capabilities: capabilities of the target, which determine the choice of optional
            instructions.
        export_private: whether the loader can find private functions; if false, they are hidden in
            a library.

    Raises:
        UnsupportedError: an op or type has no LLVM form.
    """
    state = ModuleState(capabilities=capabilities)
    functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]
    state.external = _external_symbols(functions)
    for op in module.body.block.ops:
        if isinstance(op, GlobalOp):
            state.globals[op.sym_name.data] = emit_global(op)
    for function in functions:
        if function.is_declaration:
            _declare(state, function)
            continue
        emit_function(function, state, export_private=export_private)
        if is_public(function):
            state.functions.append(emit_packed_entry(function, STOP_VARIABLE in state.globals))
    return assemble(state, triple, data_layout)


def assemble(
    state: ModuleState, triple: str = "", data_layout: str = "", metadata: str = _METADATA
) -> str:
    """Return the module text of everything gathered in a `ModuleState`."""
    parts: list[str] = []
    if data_layout:
        parts.append(f'target datalayout = "{data_layout}"')
    if triple:
        parts.append(f'target triple = "{triple}"')
    parts += state.globals.values()
    parts += state.functions
    parts += state.declarations.values()
    parts.append(metadata)
    return "\n\n".join(parts) + "\n"


def is_public(function: func.FuncOp) -> bool:
    """Whether a function can be called from outside the module."""
    return function.sym_visibility is None or function.sym_visibility.data == "public"


def _external_symbols(functions: Iterable[func.FuncOp]) -> dict[str, str]:
    return {f.sym_name.data: _external_symbol(f) for f in functions if f.is_declaration}


def _external_symbol(function: func.FuncOp) -> str:
    """Return the external symbol of a declared function."""
    symbol = function.attributes.get(SYMBOL_ATTRIBUTE)
    name = symbol.data if isinstance(symbol, StringAttr) else function.sym_name.data
    return external_symbol(name)


def _declare(state: ModuleState, function: func.FuncOp) -> None:
    type = function.function_type
    outputs = list(type.outputs)
    result = llvm_type(outputs[0]) if outputs else "void"
    parameters = ", ".join(llvm_type(t) for t in type.inputs)
    name = state.external[function.sym_name.data]
    state.declarations[name] = f"declare {result} @{name}({parameters})"


def emit_function(function: func.FuncOp, state: ModuleState, *, export_private: bool = True) -> str:
    """Emit one function and its outlined parallel bodies into `state.functions`.

    Memref parameters of private functions (the kernels) are `noalias` unless the function has the
    unit attribute `tcopt.may_alias`. Their alignment is that of the element unless the argument
    has an attribute `llvm.align`. Returns the function's text.
    """
    if len(function.body.blocks) != 1:
        raise UnsupportedError("functions with several blocks have no LLVM form", op=function)
    e = FunctionEmitter(state, symbol_of(function.sym_name.data))
    kernel = not is_public(function) and "tcopt.may_alias" not in function.attributes
    parameters: list[str] = []
    for number, argument in enumerate(function.body.block.args):
        name = f"%arg{number}"
        e.depths[name] = 0
        if isa(argument.type, MemRefType):
            alignment = argument_alignment(function, number, argument.type)
            e.bind_memref(argument, name, alignment, local=kernel)
            noalias = "noalias " if kernel else ""
            parameters.append(f"ptr {noalias}nonnull align {alignment} {name}")
        else:
            e.define(argument, name)
            parameters.append(f"{llvm_type(argument.type)} {name}")
    block = function.body.block
    outputs = list(function.function_type.outputs)
    e.can_stop, e.result = True, llvm_type(outputs[0]) if outputs else "void"
    e.emit_block(block)
    terminator = block.last_op
    if not isinstance(terminator, func.ReturnOp):
        raise UnsupportedError("a function should end in func.return", op=function)
    emit_return(e, terminator)
    hidden = "" if export_private or is_public(function) else "hidden "
    text = (
        f"define {hidden}{e.result} @{symbol_of(function.sym_name.data)}"
        f"({', '.join(parameters)}) nounwind {{\n{e.body_text()}\n}}"
    )
    state.functions.append(text)
    return text


def argument_alignment(function: func.FuncOp, number: int, type: MemRefType[Attribute]) -> int:
    """Return the known alignment of a buffer argument in bytes."""
    attributes = function.arg_attrs.data[number] if function.arg_attrs else None
    if isinstance(attributes, DictionaryAttr):
        given = attributes.data.get("llvm.align")
        if isinstance(given, IntegerAttr):
            return given.value.data
    return byte_size(type.element_type)


def emit_packed_entry(function: func.FuncOp, stops: bool) -> str:
    """Return the C entry point of a public function.

    Args:
        stops: whether the function may stop early.
    """
    lines: list[str] = []
    arguments: list[str] = []
    for number, type in enumerate(function.function_type.inputs):
        lines.append(f"  %s{number} = getelementptr ptr, ptr %args, i64 {number}")
        lines.append(f"  %p{number} = load ptr, ptr %s{number}")
        if isa(type, MemRefType):
            arguments.append(f"ptr %p{number}")
            continue
        lines.append(f"  %v{number} = load {memory_type(type)}, ptr %p{number}, align 1")
        value = f"%v{number}"
        if is_bool(type):
            lines.append(f"  %b{number} = icmp ne i8 {value}, 0")
            value = f"%b{number}"
        arguments.append(f"{llvm_type(type)} {value}")
    name = function.sym_name.data
    outputs = list(function.function_type.outputs)
    result = llvm_type(outputs[0]) if outputs else "void"
    target = "%r = " if outputs else ""
    lines.append(f"  {target}call {result} @{symbol_of(name)}({', '.join(arguments)})")
    if stops:
        lines.append(f"  %stopped = load atomic i32, ptr @{STOP_VARIABLE} monotonic, align 4")
    lines.append(f"  ret i32 {'%stopped' if stops else '0'}")
    body = "\n".join(lines)
    return f"define i32 @{entry_symbol(name)}(ptr %args) nounwind {{\nentry:\n{body}\n}}"


def emit_global(op: GlobalOp) -> str:
    """Emit a memref global: with initial elements, zeros, or uninitialised."""
    type = op.type
    assert isa(type, MemRefType)
    size = memref_bytes(type)
    kind = "constant" if op.constant is not None else "global"
    initial = op.initial_value
    if isinstance(initial, UnitAttr):
        data = "zeroinitializer"
    else:
        assert isa(initial, DenseIntOrFPElementsAttr)
        data = _bytes_literal(_dense_bytes(initial, size))
    name = op.sym_name.data
    return f"@{global_symbol(name)} = internal {kind} [{size} x i8] {data}, align {ALIGNMENT}"


def _dense_bytes(attr: DenseIntOrFPElementsAttr, size: int) -> bytes:
    import numpy as np

    from tcopt.support.data.dtypes import numpy_dtype

    dtype = numpy_dtype(attr.get_element_type())
    values = np.asarray(list(attr.get_values()), dtype=dtype)
    data = values.tobytes()
    return data * (size // len(data)) if attr.is_splat() else data


def _bytes_literal(data: bytes) -> str:
    if not any(data):
        return "zeroinitializer"
    return 'c"' + "".join(f"\\{byte:02X}" for byte in data) + '"'
