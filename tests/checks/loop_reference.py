"""Reference interpreter for loop functions that interleaves concurrent iterations at random.

Numbers are Python integers, so sums do not depend on order; uninitialised elements are NaN.
Iterations of parallel, virtual and thread loops are interleaved at random, block by block; those of
vectorised loops execute each op of a block for all lanes before the next op.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType
from xdsl.ir import Operation, SSAValue

from tcopt.dialects import loop
from tcopt.dialects.arith_ import CmpiOp, SelectOp
from tcopt.dialects.loop import LoopKind

Memory = dict[tuple[int, ...], Any]
Values = dict[SSAValue, Any]

_NAN = math.nan


def _both(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: _NAN if math.isnan(a) or math.isnan(b) else function(a, b)


_BINARY: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddfOp: _both(lambda a, b: a + b),
    arith.SubfOp: _both(lambda a, b: a - b),
    arith.MulfOp: _both(lambda a, b: a * b),
    arith.MaximumfOp: _both(max),
    arith.MinimumfOp: _both(min),
    arith.AndIOp: lambda a, b: a & b,
    # For non-negative indices.
    arith.MinUIOp: min,
}


def run(function: loop.FuncOp, arguments: Sequence[Memory], seed: int = 0) -> list[Memory]:
    """Run a function and return the final contents of its arguments.

    Args:
        arguments: initial values of each of the function's buffers.
        seed: seed of the order of concurrent iterations.
    """
    machine = _Machine(random.Random(seed))
    memories = [dict(each) for each in arguments]
    values: Values = dict(zip(function.body.block.args, memories, strict=True))
    for _ in machine.run_all(function.body.block.ops, values):
        pass
    return memories


class _Machine:
    """Interpreter that executes ops as generators, which pause after each block."""

    def __init__(self, rng: random.Random):
        self.rng = rng

    def run_all(self, ops: Any, values: Values) -> Iterator[None]:
        for op in ops:
            yield from self.run(op, values)

    def run(self, op: Operation, values: Values) -> Iterator[None]:
        match op:
            case loop.ForOp():
                yield from self._loop(op, values)
            case loop.BlockOp():
                self._lanes(op, [values])
                yield
            case loop.AllocOp():
                values[op.result] = {}
            case loop.GuardOp():
                points = [_evaluate(e, op.indices, values) for e in op.map.data.results]
                pairs = zip(points, op.condition_extents, strict=True)
                if all(0 <= point < extent for point, extent in pairs):
                    yield from self.run_all(op.body.block.ops, values)
            case loop.PrefetchOp():
                pass
            case _:
                self._compute(op, values)
                yield

    def _loop(self, op: loop.ForOp, values: Values) -> Iterator[None]:
        rounds = [{**values, op.induction_variable: i} for i in range(op.trip_count)]
        if op.loop_kind is LoopKind.VECTORIZED:
            for inner in op.body.block.ops:
                assert isinstance(inner, loop.BlockOp)
                self._lanes(inner, rounds)
            return
        together = (LoopKind.PARALLEL, LoopKind.VIRTUAL, LoopKind.THREAD)
        if op.loop_kind not in together or _combines_threads(op):
            for each in rounds:
                yield from self.run_all(op.body.block.ops, each)
            return
        running = [self.run_all(op.body.block.ops, each) for each in rounds]
        while running:
            chosen = self.rng.choice(running)
            if next(chosen, self) is self:
                running.remove(chosen)
            yield

    def _lanes(self, op: loop.BlockOp, rounds: list[Values]) -> None:
        """Run a block for all lanes, op by op; a sum over lanes is sequential."""
        alive: list[Values] = []
        for values in rounds:
            bindings = [_evaluate(e, op.operands_, values) for e in op.bindings.data.results]
            pairs = zip(bindings, op.domain, strict=True)
            if all(0 <= point < extent for point, extent in pairs):
                alive.append({**values, **dict(zip(op.iter_vars, bindings, strict=True))})
        if len(alive) > 1 and op.is_reduction and self._reduces(op, alive):
            for values in alive:
                self._lanes_of(op, [values])
        else:
            self._lanes_of(op, alive)

    def _reduces(self, op: loop.BlockOp, alive: list[Values]) -> bool:
        reduced = [
            variable
            for variable, kind in zip(op.iter_vars, op.iter_kinds, strict=True)
            if kind is loop.IterKind.REDUCE
        ]
        return len({tuple(values[v] for v in reduced) for values in alive}) > 1

    def _lanes_of(self, op: loop.BlockOp, alive: list[Values]) -> None:
        if op.init is not None:
            kinds = zip(op.iter_vars, op.iter_kinds, strict=True)
            reduced = [v for v, kind in kinds if kind is loop.IterKind.REDUCE]
            for inner in op.init.body.block.ops:
                for values in alive:
                    if all(values[v] == 0 for v in reduced):
                        self._compute(inner, values)
        for inner in op.body.block.ops:
            for values in alive:
                if not isinstance(inner, loop.InitOp):
                    self._compute(inner, values)

    def _compute(self, op: Operation, values: Values) -> None:
        match op:
            case loop.LoadOp():
                place = _place(op, values)
                inside = _is_inside(op.memref, place)
                assert inside or op.default is not None, f"{op} reads {place}"
                memory = values[op.memref]
                default = None if op.default is None else _number(op.default)
                values[op.result] = memory.get(place, _NAN) if inside else default
            case loop.StoreOp():
                place = _place(op, values)
                assert _is_inside(op.memref, place), f"{op} writes {place}"
                values[op.memref][place] = values[op.value]
            case loop.IndexOp():
                values[op.result] = _evaluate(op.map.data.results[0], op.indices, values)
            case arith.ConstantOp():
                values[op.result] = _number(op.value)
            case CmpiOp():
                # Unsigned less-than on indices: a bounds check.
                values[op.results[0]] = int(0 <= values[op.operands[0]] < values[op.operands[1]])
            case SelectOp():
                condition, yes, no = (values[each] for each in op.operands)
                values[op.results[0]] = yes if condition else no
            case _:
                combine = _BINARY[type(op)]
                values[op.results[0]] = combine(*(values[each] for each in op.operands))


def _combines_threads(op: loop.ForOp) -> bool:
    """Whether a loop is a single reduction, which threads initialise and combine themselves."""
    (first, *others) = op.body.block.ops
    if others or not isinstance(first, loop.BlockOp):
        return False
    kinds = zip(first.bindings.data.results, first.iter_kinds, strict=True)
    reduced = [expr for expr, kind in kinds if kind is loop.IterKind.REDUCE]
    used = {first.operands_[d] for expr in reduced for d in expr.used_dims()}
    return op.induction_variable in used


def _number(value: Any) -> int:
    assert isinstance(value, FloatAttr | IntegerAttr)
    return int(value.value.data)


def _evaluate(expr: Any, operands: Any, values: Values) -> int:
    return expr.eval([values[each] for each in operands], [])


def _place(op: loop.LoadOp | loop.StoreOp, values: Values) -> tuple[int, ...]:
    return tuple(_evaluate(expr, op.indices, values) for expr in op.map.data.results)


def _shape(buffer: SSAValue) -> Sequence[int]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()


def _is_inside(buffer: SSAValue, place: tuple[int, ...]) -> bool:
    return all(0 <= i < extent for i, extent in zip(place, _shape(buffer), strict=True))


def random_arguments(function: loop.FuncOp, seed: int) -> list[Memory]:
    """Return small values for each argument of a function; indices are in [0, 4)."""
    rng = random.Random(seed)
    found: list[Memory] = []
    for value in function.body.block.args:
        points = product(*(range(extent) for extent in _shape(value)))
        found.append({point: rng.randrange(4) for point in points})
    return found


def differences(expected: Sequence[Memory], got: Sequence[Memory]) -> list[str]:
    """Return the positions of differing results; values that depend on uninitialised memory are
    ignored."""
    return [
        f"argument {number} at {place}: {value} became {got[number].get(place)}"
        for number, memory in enumerate(expected)
        for place, value in memory.items()
        if not math.isnan(value) and got[number].get(place) != value
    ]
