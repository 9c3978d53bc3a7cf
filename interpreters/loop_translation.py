"""Translation of a `loop.func` to Python source."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.dialects.vector import BroadcastOp, ExtractOp, InsertOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.dialects.loop.intrin import Tile
from tcopt.dialects.simd import DotOp, PackBitsOp, TableSumOp
from tcopt.dialects.vector_ import FromElementsOp, ReductionOp, StepOp
from tcopt.interpreters.loop_intrinsics import evaluate_intrinsic, simd_expression
from tcopt.interpreters.loop_runtime import RUNTIME, unwritten
from tcopt.interpreters.loop_scalars import SCALAR_RULES, ScalarRule
from tcopt.interpreters.meanings import meaning_of
from tcopt.interpreters.scalars import dtype_of
from tcopt.support.arithmetic.affine import UNBOUNDED, Range, bounds
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import InputError, UnsupportedError

_SYMBOLS = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.FloorDiv: "//",
    AffineBinaryOpKind.Mod: "%",
}
# CPython allows at most 20 nested loops in one function.
_LOOPS_A_FUNCTION = 15


class Translator:
    """Translates one function to Python source.

    Args:
        shuffle_seed: run parallel iterations in a random order with this seed; None for in order.
    """

    def __init__(self, shuffle_seed: int | None):
        self.shuffle_seed = shuffle_seed
        self.lines: list[str] = []
        self.indent = 0
        self.loops = 0
        self.names: dict[SSAValue, str] = {}
        self.ranges: dict[SSAValue, Range] = {}
        self.globals: dict[str, Any] = dict(RUNTIME)
        self.counter = count()

    def translate(self, function: loop.FuncOp) -> Callable[..., None]:
        """Return the function as Python code that takes one buffer for each argument."""
        block = function.body.block
        arguments = ", ".join(self._define(argument) for argument in block.args)
        self._line(f"def kernel({arguments}):")
        self._block(block)
        exec("\n".join(self.lines), self.globals)
        return self.globals["kernel"]

    def _line(self, text: str) -> None:
        self.lines.append(" " * self.indent + text)

    def _define(self, value: SSAValue) -> str:
        name = self.names[value] = f"v{next(self.counter)}"
        return name

    def _assign(self, value: SSAValue, text: str) -> None:
        self._line(f"{self._define(value)} = {text}")

    def _global(self, value: Any) -> str:
        name = f"g{next(self.counter)}"
        self.globals[name] = value
        return name

    def _block(self, block: Block) -> None:
        self.indent += 1
        self._line("pass")
        for op in block.ops:
            self._op(op)
        self.indent -= 1

    def _op(self, op: Operation) -> None:
        match op:
            case loop.ForOp():
                self._for(op)
            case loop.BlockOp():
                self._loop_block(op)
            case loop.GuardOp():
                self._line(f"if {self._conditions(op.map.data.results, op.indices, op)}:")
                self._block(op.body.block)
            case loop.AllocOp():
                self._alloc(op)
            case loop.LoadOp():
                self._load(op)
            case loop.StoreOp():
                self._store(op)
            case loop.BorderOp():
                self._border(op)
            case loop.IndexOp():
                self._assign(op.result, self._expr(op.map.data.results[0], op.indices))
            case loop.MaskOp():
                self._mask(op)
            case arith.ConstantOp():
                self._constant(op)
            case loop.BarrierOp() | loop.InitOp() | loop.PrefetchOp():
                pass
            case _:
                self._value_op(op)

    def _for(self, op: loop.ForOp) -> None:
        name = self._define(op.induction_variable)
        self.ranges[op.induction_variable] = (0, max(op.trip_count - 1, 0))
        iterations = f"range({op.trip_count})"
        if self.shuffle_seed is not None and op.loop_kind is loop.LoopKind.PARALLEL:
            rng = random.Random(self.shuffle_seed)
            iterations = self._global(rng.sample(range(op.trip_count), op.trip_count))
        self.loops += 1
        outermost_here = self.loops % _LOOPS_A_FUNCTION == 0
        nested = f"f{next(self.counter)}"
        if outermost_here:
            self._line(f"def {nested}():")
            self.indent += 1
        self._line(f"for {name} in {iterations}:")
        self._block(op.body.block)
        if outermost_here:
            self.indent -= 1
            self._line(f"{nested}()")
        self.loops -= 1

    def _loop_block(self, op: loop.BlockOp) -> None:
        conditions: list[str] = []
        for value, expr, extent in zip(
            op.iter_vars, op.bindings.data.results, op.domain, strict=True
        ):
            self._assign(value, self._expr(expr, op.operands))
            self.ranges[value] = (0, max(extent - 1, 0))
            low, high = self._bounds(expr, op.operands)
            if low < 0 or high >= extent:
                conditions.append(f"0 <= {self.names[value]} < {extent}")
        if conditions:
            self._line(f"if {' and '.join(conditions)}:")
            self.indent += 1
        if op.init is not None:
            reduce = [
                f"{self.names[value]} == 0"
                for value, kind in zip(op.iter_vars, op.iter_kinds, strict=True)
                if kind is loop.IterKind.REDUCE
            ]
            self._line(f"if {' and '.join(reduce)}:")
            self._block(op.init.body.block)
        self.indent -= 1
        self._block(op.body.block)
        self.indent += 1
        if conditions:
            self.indent -= 1

    def _alloc(self, op: loop.AllocOp) -> None:
        type_ = op.result.type
        assert isa(type_, MemRefType)
        pristine = unwritten(numpy_dtype(type_.get_element_type()), type_.element_count())
        copy = "_array({0}.typecode, {0})" if hasattr(pristine, "typecode") else "{0}.copy()"
        self._assign(op.result, copy.format(self._global(pristine)))

    def _expr(self, expr: AffineExpr, operands: Sequence[SSAValue]) -> str:
        match expr:
            case AffineConstantExpr():
                return str(expr.value)
            case AffineDimExpr():
                return self.names[operands[expr.position]]
            case AffineBinaryOpExpr(kind=AffineBinaryOpKind.CeilDiv):
                lhs, rhs = self._expr(expr.lhs, operands), self._expr(expr.rhs, operands)
                return f"-(-{lhs} // {rhs})"
            case AffineBinaryOpExpr():
                lhs, rhs = self._expr(expr.lhs, operands), self._expr(expr.rhs, operands)
                return f"({lhs} {_SYMBOLS[expr.kind]} {rhs})"
            case _:
                raise UnsupportedError(f"index expression {expr}")

    def _bounds(self, expr: AffineExpr, operands: Sequence[SSAValue]) -> Range:
        return bounds(expr, [self.ranges.get(value, UNBOUNDED) for value in operands])

    def _conditions(
        self, exprs: Sequence[AffineExpr], operands: Sequence[SSAValue], op: loop.GuardOp
    ) -> str:
        pairs = zip(exprs, op.condition_extents, strict=True)
        parts = [f"0 <= {self._expr(expr, operands)} < {extent}" for expr, extent in pairs]
        return " and ".join(parts) or "True"

    def _address(
        self, op: loop.LoadOp | loop.StoreOp, *, allow_outside: bool
    ) -> tuple[str, list[str]]:
        """Return the flat index, over `lane` for vector accesses, and its in-bounds conditions."""
        type_ = op.memref.type
        assert isa(type_, MemRefType)
        vector = op.result.type if isinstance(op, loop.LoadOp) else op.value.type
        lanes = vector.get_shape() if isa(vector, VectorType) else ()
        text, conditions = "", list[str]()
        places = zip(op.map.data.results, type_.get_shape(), op.lane_reaches, strict=True)
        for dim, (expr, extent, (below, above)) in enumerate(places):
            index = self._expr(expr, op.indices)
            index += _lane_offset([row[dim] for row in op.lane_steps], lanes)
            low, high = self._bounds(expr, op.indices)
            low, high = low + below, high + above
            if low < 0 or high >= extent:
                if allow_outside:
                    conditions.append(f"0 <= {index} < {extent}")
                else:
                    index = f"_checked({index}, {extent})"
            text = f"({text}) * {extent} + {index}" if text else index
        return text or "0", conditions

    def _load(self, op: loop.LoadOp) -> None:
        default = self._number(op.default) if op.default is not None else "0"
        index, conditions = self._address(op, allow_outside=op.default is not None)
        text = f"{self.names[op.memref]}[{index}]"
        if op.mask is not None:
            conditions.insert(0, f"{self.names[op.mask]}[lane]")
        if conditions:
            text = f"{text} if {' and '.join(conditions)} else {default}"
        if isa(op.result.type, VectorType):
            text = f"[{text} for lane in range({op.result.type.element_count()})]"
        self._assign(op.result, text)

    def _store(self, op: loop.StoreOp) -> None:
        index, _ = self._address(op, allow_outside=False)
        buffer, value = self.names[op.memref], self.names[op.value]
        if not isa(op.value.type, VectorType):
            self._line(f"{buffer}[{index}] = {value}")
            return
        guard = f"if {self.names[op.mask]}[lane]: " if op.mask is not None else ""
        self._line(f"for lane in range({op.value.type.element_count()}):")
        self._line(f" {guard}{buffer}[{index}] = {value}[lane]")

    def _border(self, op: loop.BorderOp) -> None:
        places = np.arange(op.type.element_count()).reshape(op.type.get_shape())
        for first, extents in op.sides():
            box = zip(first, extents, strict=True)
            chosen = places[tuple(slice(start, start + count) for start, count in box)]
            self._line(f"for place in {self._global(chosen.ravel().tolist())}:")
            self._line(f" {self.names[op.buffer]}[place] = {self._number(op.value)}")

    def _intrinsic(self, op: loop.IntrinOp) -> None:
        """Gather the tiles, evaluate the intrinsic, and write the output."""
        tiles = ", ".join(self._places(tile, op.indices) for tile in op.tiles)
        buffers = ", ".join(self.names[buffer] for buffer in op.buffers)
        function = self._global(evaluate_intrinsic(op.intrin.data))
        self._line(f"{function}([{buffers}], [{tiles}])")

    def _places(self, tile: Tile, operands: Sequence[SSAValue]) -> str:
        """Return the flat indices of a tile's elements, as a list expression."""
        text, inside = "", list[str]()
        for dim, (expr, extent) in enumerate(
            zip(tile.first, buffer_shape(tile.buffer), strict=True)
        ):
            offset = _lane_offset([row[dim] for row in tile.steps], tile.extents)
            index = f"{self._expr(expr, operands)}{offset}"
            if tile.is_padded:
                inside.append(f"0 <= {index} < {extent}")
                index = f"({index})"
            else:
                index = f"_checked({index}, {extent})"
            text = f"({text}) * {extent} + {index}" if text else index
        text = text or "0"
        if inside:
            text = f"{text} if {' and '.join(inside)} else -1"
        return f"[{text} for lane in range({prod(tile.extents)})]"

    def _mask(self, op: loop.MaskOp) -> None:
        parts = [
            f"0 <= {self._expr(expr, op.indices)} + {step} * lane < {extent}"
            for expr, (extent, step) in zip(op.map.data.results, op.conditions, strict=True)
        ]
        assert isa(op.result.type, VectorType)
        lanes = op.result.type.get_shape()[0]
        condition = " and ".join(parts) or "True"
        self._assign(op.result, f"[int({condition}) for lane in range({lanes})]")

    def _number(self, attr: Attribute) -> str:
        if isinstance(attr, IntegerAttr):
            value = attr.value.data
            return str(value & 1 if attr.type == i1 else value)
        assert isinstance(attr, FloatAttr)
        text = repr(attr.value.data)
        return text.replace("inf", "_inf").replace("nan", "_nan")

    def _constant(self, op: arith.ConstantOp) -> None:
        value = op.value
        if isa(value, DenseIntOrFPElementsAttr):
            assert isa(op.result.type, VectorType)
            values = list(value.get_values())
            size = op.result.type.element_count()
            self._assign(op.result, self._global(values * (size if len(values) == 1 else 1)))
            if len(values) not in (1, size):
                raise UnsupportedError("a dense constant with the wrong number of elements", op=op)
            return
        self._assign(op.result, f"{self._number(value)}")

    def _value_op(self, op: Operation) -> None:
        names = [self.names[operand] for operand in op.operands]
        match op:
            case scf.ForOp():
                name = self._define(op.body.block.args[0])
                self._line(f"for {name} in range({', '.join(names)}):")
                self._block(op.body.block)
            case scf.IfOp():
                self._line(f"if {names[0]}:")
                self._block(op.true_region.block)
            case scf.YieldOp():
                pass
            case BroadcastOp():
                self._broadcast(op, names[0])
            case DotOp() | PackBitsOp() | TableSumOp():
                self._assign(op.result, simd_expression(op, names))
            case StepOp():
                assert isa(op.result.type, VectorType)
                self._assign(op.result, f"list(range({op.result.type.get_shape()[0]}))")
            case FromElementsOp():
                self._assign(op.result, f"[{', '.join(names)}]")
            case ExtractOp() if not op.dynamic_position:
                self._assign(op.result, f"{names[0]}[{op.static_position.get_values()[0]}]")
            case InsertOp() if not op.dynamic_position:
                at = op.static_position.get_values()[0]
                self._assign(op.result, f"[*{names[1]}[:{at}], {names[0]}, *{names[1]}[{at + 1}:]]")
            case ReductionOp():
                self._reduction(op, names)
            case loop.IntrinOp():
                self._intrinsic(op)
            case _:
                self._scalar_op(op, names)

    def _broadcast(self, op: BroadcastOp, name: str) -> None:
        """Translate a broadcast, which adds leading dimensions."""
        assert isa(op.vector.type, VectorType)
        count = op.vector.type.element_count()
        if not isa(op.source.type, VectorType):
            self._assign(op.vector, f"[{name}] * {count}")
            return
        shape = op.source.type.get_shape()
        if op.vector.type.get_shape()[-len(shape) :] != shape:
            raise UnsupportedError("the loop interpreter does not stretch a vector", op=op)
        self._assign(op.vector, f"{name} * {count // prod(shape)}")

    def _reduction(self, op: ReductionOp, names: list[str]) -> None:
        combine = _COMBINERS.get(op.kind.data.value)
        if combine is None:
            raise UnsupportedError("the loop interpreter does not know this reduction", op=op)
        name = self._global(combine)
        parts = f"[{names[1]}, *{names[0]}]" if op.acc is not None else names[0]
        self._assign(op.dest, f"{name}({parts})")

    def _meant(self, op: Operation, meaning: Callable[..., Any]) -> ScalarRule:
        """Return a rule that calls a third-party op's registered meaning for single elements."""
        dtypes = [dtype_of(value.type) for value in op.operands]

        def ask(*operands: Any) -> Any:
            arrays = map(np.asarray, operands, dtypes)
            return np.asarray(meaning(*arrays), dtype_of(op.results[0].type)).item()

        name = self._global(ask)
        return lambda _, operands: f"{name}({', '.join(operands)})"

    def _meant_as_whole(
        self, op: Operation, meaning: Callable[..., Any], names: Sequence[str]
    ) -> str:
        """Return an expression that calls the registered meaning of a third-party op for whole
        vectors.
        """
        types = [(dtype_of(value.type), _extents(value)) for value in op.operands]
        dtype, shape = dtype_of(op.results[0].type), _extents(op.results[0])

        def ask(*operands: Any) -> Any:
            arrays = [
                np.asarray(each, dtype).reshape(extents)
                for each, (dtype, extents) in zip(operands, types, strict=True)
            ]
            result = np.asarray(meaning(*arrays), dtype)
            if result.shape != shape:
                raise InputError(
                    f"its meaning returns an array of shape {result.shape} instead of {shape}",
                    op=op,
                )
            return result.ravel().tolist() if shape else result.item()

        return f"{self._global(ask)}({', '.join(names)})"

    def _scalar_op(self, op: Operation, names: list[str]) -> None:
        meaning = meaning_of(op)
        rule = SCALAR_RULES.get(op.name) if meaning is None else self._meant(op, meaning)
        if rule is None or len(op.results) != 1:
            raise UnsupportedError("the loop interpreter does not run this op", op=op)
        vectors = [i for i, v in enumerate(op.operands) if isa(v.type, VectorType)]
        if not vectors:
            self._assign(op.results[0], rule(op, names))
            return
        if meaning is not None and len({_extents(v) for v in (*op.operands, *op.results)}) > 1:
            self._assign(op.results[0], self._meant_as_whole(op, meaning, names))
            return
        elements = list(names)
        for i in vectors:
            elements[i] = f"x{i}"
        variables = ", ".join(elements[i] for i in vectors) + ","
        lists = ", ".join(names[i] for i in vectors)
        self._assign(op.results[0], f"[{rule(op, elements)} for {variables} in zip({lists})]")


def _extents(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a vector; () for a scalar."""
    return tuple(value.type.get_shape()) if isa(value.type, VectorType) else ()


def _lane_offset(steps: Sequence[int], extents: Sequence[int]) -> str:
    """Return the offset of element `lane` in an index, counted in row-major order, as an
    expression.
    """
    text, inner = "", prod(extents)
    for step, extent in zip(steps, extents, strict=True):
        inner //= extent
        if step:
            text += f" + {step} * (lane // {inner} % {extent})"
    return text


def _product(values: Sequence[Any]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = result * value
    return result


_COMBINERS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "add": sum,
    "mul": _product,
    "maximumf": max,
    "maxnumf": max,
    "maxsi": max,
    "minimumf": min,
    "minnumf": min,
    "minsi": min,
}
