"""simplify-kernel: constants are folded, trivial loops and branches disappear."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import arith, func, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from tcopt.dialects import vector_
from tcopt.passes.kernel.folds import Folded, Number, fold_of, wrap


@dataclass(frozen=True)
class SimplifyKernel(ModulePass):
    """Folds integer, index and float constants and what follows from them, in one walk.

    Loops that run once or never and branches on constants are replaced by their bodies;
    masked accesses under a mask of ones become plain ones. Constants are collected, once
    each, at the head of their function. Running it again changes nothing.

    ```mlir
    %c2 = arith.constant 2 : index
    %c4 = arith.muli %c2, %c2 : index
    scf.for %i = %c2 to %c4 step %c4 {
      %v = memref.load %m[%i] : memref<8xf32>
    ```
    becomes
    ```mlir
    %c2 = arith.constant 2 : index
    %v = memref.load %m[%c2] : memref<8xf32>
    ```
    """

    name = "simplify-kernel"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, func.FuncOp) and not function.is_declaration:
                for block in function.body.blocks:
                    _Simplifier(block).run()


@dataclass
class _Simplifier:
    """The constants of one function, by type and value and by SSA value."""

    entry: Block
    pool: dict[Attribute, arith.ConstantOp] = field(
        default_factory=dict[Attribute, arith.ConstantOp]
    )
    numbers: dict[SSAValue, Number] = field(default_factory=dict[SSAValue, Number])

    def run(self) -> None:
        self.visit(self.entry)
        constants = list(self.pool.values())
        for constant in constants:
            constant.detach()
        used = [c for c in constants if c.result.first_use is not None]
        for constant in constants:
            if constant.result.first_use is None:
                constant.erase()
        if self.entry.first_op is not None:
            self.entry.insert_ops_before(used, self.entry.first_op)

    def visit(self, block: Block) -> None:
        """Simplify the ops of a block; bodies moved into it are visited in their place."""
        op = block.first_op
        while op is not None:
            op = self._visit_op(op)

    def _visit_op(self, op: Operation) -> Operation | None:
        """Simplify one op and return the one to look at next."""
        if isinstance(op, arith.ConstantOp):
            following = op.next_op
            self._pool_constant(op)
            return following
        if op.regions:
            return self._visit_regions(op)
        following = op.next_op
        fold = fold_of(op)
        if fold is not None:
            folded = fold(op, [self.numbers.get(v) for v in op.operands])
            if folded is not None:
                self._replace(op, folded)
                return following
        self._unmask(op)
        return following

    def _pool_constant(self, op: arith.ConstantOp) -> None:
        existing = self.pool.get(op.value)
        if existing is None or existing.result.type != op.result.type:
            # A pooled constant is moved to the head in the end, in front of all its uses.
            self.pool[op.value] = op
            number = _number_of(op.value)
            if number is not None:
                self.numbers[op.result] = number
            return
        op.result.replace_all_uses_with(existing.result)
        op.detach()
        op.erase()

    def _constant(self, value: Number, type: Attribute) -> SSAValue | None:
        attr = _attr_of(value, type)
        if attr is None:
            return None
        known = self.pool.get(attr)
        if known is None:
            known = arith.ConstantOp(attr)
            self.entry.insert_op_before(known, _first(self.entry))
            self.pool[attr] = known
            self.numbers[known.result] = value
        return known.result

    def _replace(self, op: Operation, folded: Folded) -> None:
        (result,) = op.results
        value = folded if isinstance(folded, SSAValue) else None
        if not isinstance(folded, SSAValue) and folded is not None:
            value = self._constant(folded, result.type)
        if value is not None:
            result.replace_all_uses_with(value)
            op.detach()
            op.erase()

    def _visit_regions(self, op: Operation) -> Operation | None:
        body = self._known_body(op)
        if body is None:
            for region in op.regions:
                for block in region.blocks:
                    self.visit(block)
            return op.next_op
        block, arguments = body
        return _inline(op, block, arguments)

    def _known_body(self, op: Operation) -> tuple[Block | None, list[SSAValue]] | None:
        """The one block that a loop or branch runs, with its arguments; None if unsure."""
        if isinstance(op, scf.ForOp):
            low, high, step = (self.numbers.get(v) for v in (op.lb, op.ub, op.step))
            if low is None or high is None:
                return None
            if low >= high:
                return None, list(op.iter_args)
            if step is not None and low + step >= high:
                return op.body.block, [op.lb, *op.iter_args]
        elif isinstance(op, scf.IfOp):
            condition = self.numbers.get(op.cond)
            if condition is not None:
                region = op.true_region if condition else op.false_region
                return (region.block if region.blocks else None), []
        return None

    def _unmask(self, op: Operation) -> None:
        """A masked access under a mask of ones is a plain one."""
        if not isinstance(op, vector.MaskedLoadOp | vector.MaskedStoreOp):
            return
        if not self._is_all_ones(op.mask):
            return
        block = op.parent
        assert block is not None
        if isinstance(op, vector.MaskedLoadOp):
            assert isa(op.result.type, VectorType)
            load = vector.LoadOp(op.base, op.indices, op.result.type)
            block.insert_op_before(load, op)
            op.result.replace_all_uses_with(load.result)
        else:
            block.insert_op_before(vector.StoreOp(op.value_to_store, op.base, op.indices), op)
        op.detach()
        op.erase()

    def _is_all_ones(self, mask: SSAValue) -> bool:
        owner = mask.owner
        assert isa(mask.type, VectorType)
        shape = mask.type.get_shape()
        if isinstance(owner, vector_.ConstantMaskOp):
            return tuple(owner.mask_dim_sizes.get_values()) == shape
        if isinstance(owner, vector.CreateMaskOp):
            sizes = [self.numbers.get(size) for size in owner.mask_dim_sizes]
            return all(
                size is not None and size >= extent
                for size, extent in zip(sizes, shape, strict=True)
            )
        return self.numbers.get(mask) == 1


def _first(block: Block) -> Operation:
    first = block.first_op
    assert first is not None
    return first


def _inline(op: Operation, block: Block | None, arguments: list[SSAValue]) -> Operation | None:
    """Put a block's ops in place of `op`; returns the first op to look at next."""
    parent = op.parent
    assert parent is not None
    following: Operation | None = None
    yielded = arguments
    if block is not None:
        for argument, value in zip(block.args, arguments, strict=True):
            argument.replace_all_uses_with(value)
        moved = list(block.ops)
        terminator = moved.pop()
        yielded = list(terminator.operands)
        for inner in moved:
            inner.detach()
            parent.insert_op_before(inner, op)
        following = moved[0] if moved else None
    following = following or op.next_op
    for result, value in zip(op.results, yielded, strict=True):
        result.replace_all_uses_with(value)
    op.detach()
    op.erase()
    return following


def _number_of(attr: Attribute) -> Number | None:
    """The number a constant attribute has in every element, or None."""
    if isa(attr, IntegerAttr):
        return _unsigned_bool(attr.value.data, attr.type)
    if isa(attr, FloatAttr):
        return attr.value.data
    if isa(attr, DenseIntOrFPElementsAttr) and attr.is_splat():
        value = attr.get_values()[0]
        if isinstance(value, int | float):
            return _unsigned_bool(value, attr.get_element_type())
    return None


def _unsigned_bool(value: Number, element: Attribute) -> Number:
    """An i1 as 0 or 1, where text may say -1."""
    return int(value) & 1 if element == i1 else value


def _attr_of(
    value: Number, type: Attribute
) -> IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr | None:
    """A constant attribute with the number in every element of a type."""
    if isa(type, VectorType):
        element = type.element_type
        number = float(value) if isinstance(element, AnyFloat) else wrap(int(value), element)
        return DenseIntOrFPElementsAttr.from_list(type, [number])  # pyright: ignore
    if isinstance(type, AnyFloat):
        return FloatAttr(float(value), type)
    number = wrap(int(value), type)
    return IntegerAttr(number, type)  # pyright: ignore
