"""Emission of one function as LLVM IR text, directly from structured IR.

Regions become basic blocks on the fly, without an intermediate control-flow dialect. Two
mechanisms replace LLVM's IR passes, which are not run:

- index values are kept as linear forms and materialised only where a use needs an operand, so the
  addresses in an unrolled body are one base plus constant offsets;
- the invariant part of such a form is emitted once, before the loop in which it first varies. To
  this end, each open region has a list of *entry lines* before it, to which code may be added
  while the region is being emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, TypeVar

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tcopt.backends.llvm.emit.linear import ZERO, LinearAddress
from tcopt.backends.llvm.emit.literals import Literal, literal
from tcopt.backends.llvm.emit.registry import emit_rules
from tcopt.backends.llvm.emit.types import I64, PTR, LlvmType, byte_size, llvm_type
from tcopt.backends.strides import known_strides
from tcopt.support.errors import UnsupportedError

Lines = list["str | Lines"]
_T = TypeVar("_T")


Stride: TypeAlias = "int | LinearAddress | None"
"""A stride in elements: a number, a computed value, or None if it is unknown."""


@dataclass(slots=True)
class EmittedBuffer:
    """A memref value: a pointer, a byte offset to the first element, and strides in elements."""

    root: str
    offset: LinearAddress
    strides: tuple[Stride, ...]
    element: Attribute
    alignment: int
    """Known alignment of `root` in bytes."""
    is_local: bool = False
    """Whether this memory is accessed through `root` only."""


@dataclass(slots=True)
class EmitterScope:
    """An open region: where its invariant code is emitted, and the values available in it."""

    entry: Lines
    """Lines before the region, at the end of the enclosing scope."""
    cache: dict[object, str] = field(default_factory=dict)
    """Names of pure values already emitted in this scope, by what they compute."""


@dataclass
class ModuleState:
    """State shared by the functions of one LLVM module."""

    declarations: dict[str, str] = field(default_factory=dict)
    """External functions by name, as `declare` lines."""
    globals: dict[str, str] = field(default_factory=dict)
    """Global variables by name."""
    functions: list[str] = field(default_factory=list)
    """Texts of finished functions, including outlined parallel bodies."""
    external: dict[str, str] = field(default_factory=dict)
    """Symbols of functions without a body in the source module, by name."""
    capabilities: frozenset[str] = frozenset()
    """Optional capabilities of the target; see `CpuTargetAttr.capabilities`."""
    work: dict[int, int] = field(default_factory=dict)
    """Estimated work of loop bodies, by the identity of their blocks."""


class FunctionEmitter:
    """State of one LLVM function during emission; passed to every emit rule."""

    outer: FunctionEmitter | None = None
    """The enclosing function, for bodies of parallel loops."""

    index_type: LlvmType = I64
    """The LLVM type of index values."""

    converts_to_nearest: ClassVar[bool] = True
    """Whether the code generator has a conversion of f32 to i32 that rounds to nearest."""

    rounds_to_bf16 = False
    """Whether the code generator has an instruction that rounds f32 to bf16."""

    loop_metadata = "!llvm.loop !0"
    """Metadata of every loop; `!0` disables unrolling by LLVM (defined in `module.py`)."""

    can_stop = False
    """Whether the function may return early."""

    result = "void"
    """The LLVM type of the function's result."""

    no_rule = "no LLVM emit rule for this op"
    """The error for an op without a rule."""

    def __init__(self, module: ModuleState, name: str):
        self.module = module
        self.name = name
        self.lines: Lines = []
        self.allocas: Lines = []
        self.block = "entry"
        # Keyed by the identity of SSA values, because hashing them is slow; the IR stays alive.
        self.values: dict[int, str] = {}
        self.linear: dict[int, LinearAddress] = {}
        self.buffers: dict[int, EmittedBuffer] = {}
        self.depths: dict[str, int] = {}
        self.scopes: list[EmitterScope] = [EmitterScope(self.lines)]
        self.parallel_count = 0
        self.allocated: dict[int, str] = {}
        """Pointers returned by malloc and not yet freed, by the identity of memref values."""
        self.stops: dict[tuple[str, ...], str] = {}
        """Labels of blocks that return early, by the pointers they free."""
        self.tail: list[str] = []
        """Lines of blocks that are placed after all others."""
        self._counter = 0
        self._rules = emit_rules()

    # Names and lines

    def fresh(self) -> str:
        """Return a new value name, defined in the current scope."""
        self._counter += 1
        name = f"%v{self._counter}"
        self.depths[name] = len(self.scopes) - 1
        return name

    def label(self, hint: str) -> str:
        """Return a new block label."""
        self._counter += 1
        return f"{hint}.{self._counter}"

    def write(self, line: str) -> None:
        """Emit one instruction at the current position."""
        self.lines.append(line)

    def assign(self, expression: str) -> str:
        """Emit `%new = expression` and return the name."""
        name = self.fresh()
        self.lines.append(f"  {name} = {expression}")
        return name

    def assign_opaque(self, expression: str) -> str:
        """Emit an index that is opaque to LLVM's address analysis.

        If LLVM's loop strength reduction sees a quotient or remainder, it rewrites each address
        that depends on it separately, so that a body needs one register per address.
        """
        return self.assign(f"freeze {self.index_type} {self.assign(expression)}")

    def start_block(self, label: str) -> None:
        """Begin a basic block for the following lines."""
        self.lines.append(f"{label}:")
        self.block = label

    def call_intrinsic(
        self, name: str, result: str, arguments: Iterable[tuple[str, str]], flags: str = ""
    ) -> str:
        """Call `llvm.<name>`, whose mangled name is given in full, and return the result."""
        typed = list(arguments)
        self.declare(name, result, [type for type, _ in typed])
        listed = ", ".join(f"{type} {value}" for type, value in typed)
        return self.assign(f"call {flags}{result} @{name}({listed})")

    def unary_intrinsic(self, name: str, type: LlvmType, *operands: str, flags: str = "") -> str:
        """Call `llvm.<name>.<type>` on operands of one type that is also the result's."""
        mangled = f"llvm.{name}.{type.mangled}"
        return self.call_intrinsic(mangled, type, [(type, v) for v in operands], flags)

    def declare(self, name: str, result: str, parameters: Iterable[str]) -> None:
        """Ensure that the module declares an external function."""
        if name not in self.module.declarations:
            self.module.declarations[name] = f"declare {result} @{name}({', '.join(parameters)})"

    # Values

    def type(self, type: Attribute) -> LlvmType:
        """Return the LLVM type of a value in this function."""
        return self.index_type if type.__class__ is IndexType else llvm_type(type)

    def library_name(self, function: str) -> str:
        """Return the name of a C library function on the target."""
        return function

    def pointer_type(self, pointer: str) -> LlvmType:
        """Return the LLVM type of a pointer, including its address space."""
        return PTR

    def value(self, value: SSAValue) -> str:
        """Return the LLVM operand of a non-memref value, emitting index arithmetic if needed."""
        known = self.values.get(id(value))
        if known is not None:
            return known
        form = self.linear.get(id(value))
        if form is not None:
            return self.materialize(form)
        if self.outer is not None:
            return self.capture_value(value)
        raise UnsupportedError(f"value of type {value.type} is used before it is defined")

    def index(self, value: SSAValue) -> LinearAddress:
        """Return the linear form of an index value."""
        known = self.linear.get(id(value))
        if known is not None:
            return known
        if self.outer is not None:
            return self.capture_index(value)
        raise UnsupportedError(f"value of type {value.type} is used before it is defined")

    def buffer(self, value: SSAValue) -> EmittedBuffer:
        """Return the pointer and layout of a memref value."""
        known = self.buffers.get(id(value))
        if known is None:
            if self.outer is None:
                raise UnsupportedError(f"value of type {value.type} is used before it is defined")
            known = self.capture_buffer(value)
        return known

    def define(self, value: SSAValue, name: str) -> None:
        """Bind an SSA value to an LLVM operand, a name or a number."""
        self.values[id(value)] = name
        if value.type.__class__ is IndexType:
            is_name = name.startswith("%")
            self.linear[id(value)] = (
                LinearAddress.symbol(name) if is_name else LinearAddress.constant(int(name))
            )

    def define_constant(self, value: SSAValue, constant: Literal) -> None:
        """Bind a value to a constant."""
        self.values[id(value)] = constant

    def define_buffer(self, value: SSAValue, buffer: EmittedBuffer) -> None:
        """Bind a memref value."""
        self.buffers[id(value)] = buffer

    def define_index(self, value: SSAValue, form: LinearAddress) -> None:
        """Bind an index value to a linear form."""
        self.linear[id(value)] = form

    def define_result(self, op: Operation, expression: str) -> None:
        """Emit `expression` as the op's only result."""
        self.define(op.results[0], self.assign(expression))

    def constant_index(self, value: SSAValue) -> int | None:
        """Return the value of a constant index, or None."""
        if not isinstance(value.type, IndexType):
            return None
        form = self.index(value)
        return None if form.terms else form.const

    # Values of an enclosing function; only outlined bodies have them.

    def capture_value(self, value: SSAValue) -> str:
        raise NotImplementedError

    def capture_index(self, value: SSAValue) -> LinearAddress:
        raise NotImplementedError

    def capture_buffer(self, value: SSAValue) -> EmittedBuffer:
        raise NotImplementedError

    # Scopes and hoisting

    def enter_scope(self, entry: Lines) -> None:
        """Open a region whose invariant code is emitted at `entry`."""
        self.scopes.append(EmitterScope(entry))

    def leave_scope(self) -> None:
        self.scopes.pop()
        if self.allocated:
            depth = len(self.scopes) - 1
            inside = (entry for entry in self.allocated.items() if self.depths[entry[1]] <= depth)
            self.allocated = dict(inside)

    def entry_lines(self) -> Lines:
        """Return an insertion point at the current position, for lines that are added later."""
        place: Lines = []
        self.lines.append(place)
        return place

    def pure(self, key: object, depth: int, expression: Callable[[], str]) -> str:
        """Emit a pure value once, in the scope of the given depth.

        `key` identifies the value; another request within the scope returns the first name.
        """
        scope = self.scopes[depth]
        known = scope.cache.get(key)
        if known is not None:
            return known
        text = expression()
        innermost = depth == len(self.scopes) - 1
        lines = self.lines if innermost else self.scopes[depth + 1].entry
        self._counter += 1
        name = f"%v{self._counter}"
        self.depths[name] = depth
        lines.append(f"  {name} = {text}")
        scope.cache[key] = name
        return name

    def materialize(self, form: LinearAddress) -> str:
        """Return an index operand with the value of a linear form."""
        if not form.terms:
            return literal(self.index_type, form.const)
        total: str | None = None
        depth = 0
        for depth, terms in self._by_depth(form):
            part = self._sum(terms, depth)
            total = part if total is None else self._add(total, part, depth)
        assert total is not None
        return total if form.const == 0 else self._add(total, str(form.const), depth)

    def _add(self, left: str, right: str, depth: int) -> str:
        type = self.index_type
        return self.pure(("add", left, right), depth, lambda: f"add nsw {type} {left}, {right}")

    def _sum(self, terms: list[tuple[str, int]], depth: int) -> str:
        total: str | None = None
        for name, coefficient in terms:
            part = self._scale(name, coefficient, depth)
            total = part if total is None else self._add(total, part, depth)
        assert total is not None
        return total

    def _scale(self, name: str, coefficient: int, depth: int) -> str:
        if coefficient == 1:
            return name
        type = self.index_type
        if coefficient > 0 and coefficient & (coefficient - 1) == 0:
            shift = coefficient.bit_length() - 1
            return self.pure(("shl", name, shift), depth, lambda: f"shl nsw {type} {name}, {shift}")
        return self.pure(
            ("mul", name, coefficient), depth, lambda: f"mul nsw {type} {name}, {coefficient}"
        )

    def _by_depth(self, form: LinearAddress) -> list[tuple[int, list[tuple[str, int]]]]:
        groups: dict[int, list[tuple[str, int]]] = {}
        for term in form.terms:
            groups.setdefault(self.depths[term[0]], []).append(term)
        return sorted(groups.items())

    def pointer(self, root: str, offset: LinearAddress) -> str:
        """Return a pointer `offset` bytes after `root`; common parts of addresses are shared."""
        key = (root, offset)
        depth = len(self.scopes) - 1
        known = self.scopes[depth].cache.get(key)
        if known is not None:
            return known
        pointer = root
        at = self.depths.get(root, 0)
        for level, terms in self._by_depth(LinearAddress(offset.terms, 0)):
            at = max(at, level)
            pointer = self._advance(pointer, self._sum(terms, level), at)
        if offset.const:
            pointer = self._advance(pointer, str(offset.const), depth)
        self.scopes[depth].cache[key] = pointer
        return pointer

    def _advance(self, pointer: str, offset: str, depth: int) -> str:
        return self.pure(
            ("gep", pointer, offset),
            depth,
            lambda: (
                f"getelementptr i8, {self.pointer_type(pointer)} {pointer}, "
                f"{self.index_type} {offset}"
            ),
        )

    # Memory

    def element_offset(self, buffer: EmittedBuffer, indices: Iterable[SSAValue]) -> LinearAddress:
        """Return the byte offset of an element from the buffer's root."""
        size = byte_size(buffer.element)
        form = buffer.offset
        for index, stride in zip(indices, buffer.strides, strict=True):
            form = form.plus(self.steps(self.index(index), stride).scaled(size))
        return form

    def steps(self, index: LinearAddress, stride: Stride) -> LinearAddress:
        """Return an index times a stride."""
        if isinstance(stride, int):
            return index.scaled(stride)
        if stride is not None:
            return self.product(index, stride)
        if index != ZERO:
            raise UnsupportedError(
                "a buffer is accessed whose strides are unknown",
                hint="give its strides by memref.reinterpret_cast",
            )
        return ZERO

    def product(self, left: LinearAddress, right: LinearAddress) -> LinearAddress:
        """Return the product of two linear forms; products of values are emitted once."""
        result = left.scaled(right.const)
        for name, factor in right.terms:
            result = result.plus(LinearAddress.symbol(name).scaled(left.const * factor))
            for other, coefficient in left.terms:
                pair = sorted((name, other))
                depth = max(self.depths[each] for each in pair)
                value = self.pure(
                    ("product", *pair),
                    depth,
                    lambda p=pair: f"mul nsw {self.index_type} {p[0]}, {p[1]}",
                )
                result = result.plus(LinearAddress.symbol(value).scaled(coefficient * factor))
        return result

    def address(self, memref: SSAValue, indices: Iterable[SSAValue]) -> tuple[str, int]:
        """Return a pointer to an element and its known alignment."""
        buffer = self.buffer(memref)
        offset = self.element_offset(buffer, indices)
        return self.pointer(buffer.root, offset), known_alignment(buffer, offset)

    def base_pointer(self, memref: SSAValue) -> str:
        """Return a pointer to the first element of a memref."""
        buffer = self.buffer(memref)
        return self.pointer(buffer.root, buffer.offset)

    def bind_memref(self, value: SSAValue, root: str, alignment: int, local: bool = False) -> None:
        """Bind a memref whose first element is at `root`."""
        type = value.type
        assert isinstance(type, MemRefType)
        self.buffers[id(value)] = EmittedBuffer(
            root, ZERO, known_strides(type), type.element_type, alignment, local
        )

    def alloca(self, type: str, alignment: int, count: int = 1) -> str:
        """Reserve stack memory in the function's entry block."""
        self._counter += 1
        name = f"%v{self._counter}"
        self.depths[name] = 0
        self.allocas.append(f"  {name} = alloca {type}, i64 {count}, align {alignment}")
        return name

    # Driving

    def emit_block(self, block: Block) -> None:
        """Emit every op of a block except its terminator."""
        rules = self._rules
        last = block.last_op
        for op in block.ops:
            if op is last:
                break
            rule = rules.get(op.name)
            if rule is None:
                raise UnsupportedError(self.no_rule, op=op)
            rule(self, op)

    def emit_op(self, op: Operation) -> None:
        """Emit one op with its rule."""
        rule = self._rules.get(op.name)
        if rule is None:
            raise UnsupportedError(self.no_rule, op=op)
        rule(self, op)

    def stop_label(self) -> str:
        """Return the label of the block that frees allocations and returns early."""
        allocated = tuple(self.allocated.values())
        if allocated not in self.stops:
            self.stops[allocated] = f"stopped.{len(self.stops)}"
        return self.stops[allocated]

    def _nothing(self) -> str:
        zero = "null" if self.result == "ptr" else "zeroinitializer"
        return f"{self.result} {zero}"

    def body_text(self) -> str:
        """Return the finished body, entry block first."""
        flat: list[str] = ["entry:"]
        _flatten(self.allocas, flat)
        _flatten(self.lines, flat)
        flat += self.tail
        for allocated, label in self.stops.items():
            flat.append(f"{label}:")
            flat += [f"  call void @free(ptr {raw})" for raw in allocated]
            flat.append("  ret void" if self.result == "void" else f"  ret {self._nothing()}")
        return "\n".join(flat)


def _flatten(lines: Lines, into: list[str]) -> None:
    for line in lines:
        if isinstance(line, str):
            into.append(line)
        else:
            _flatten(line, into)


def known_alignment(buffer: EmittedBuffer, offset: LinearAddress) -> int:
    """Return the known alignment of an address `offset` bytes after the root."""
    bits = buffer.alignment | offset.const
    for _, coefficient in offset.terms:
        bits |= coefficient
    return bits & -bits
