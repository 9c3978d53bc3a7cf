"""Making, placing and erasing ops quickly, for passes that write thousands of them.

The same as xDSL's own methods for ops without regions and successors, at a third of the time:
what these check holds by construction, such as that an op which was just made is nowhere yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeVar

from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, Use
from xdsl.ir.core import SSAValues
from xdsl.irdl import IRDLOperation, OptionalDef

# pyright: reportPrivateUsage=false

_Op = TypeVar("_Op", bound=Operation)
_NONE: dict[str, Attribute] = {}


def new_op(
    kind: type[_Op],
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = _NONE,
    attributes: Mapping[str, Attribute] = _NONE,
) -> _Op:
    """An op without regions and successors, as `kind.create` makes it."""
    op = object.__new__(kind)
    init_op(op, operands, result_types, properties, attributes)
    return op


def init_op(
    op: Operation,
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = _NONE,
    attributes: Mapping[str, Attribute] = _NONE,
    regions: Sequence[Region] = (),
) -> None:
    """What `Operation.__init__` does with an op without successors.

    Groups of operands and absent properties are the caller's to resolve.
    """
    uses: list[Use] = []
    for index, operand in enumerate(operands):
        use = Use(op, index)
        first = operand.first_use
        if first is not None:
            use._next_use = first
            first._prev_use = use
        operand.first_use = use
        uses.append(use)
    op._operands = SSAValues(operands)
    op._operand_uses = tuple(uses)
    op.results = SSAValues([OpResult(t, op, index) for index, t in enumerate(result_types)])
    op.properties = given = dict(properties)
    op.attributes = dict(attributes)
    op.location = UNKNOWN_LOC
    for name, value in _default_properties(type(op)):
        given.setdefault(name, value)
    if regions:
        op.regions = tuple(regions)
        for region in regions:
            assert region.parent is None
            region.parent = op


def append_op(block: Block, op: Operation) -> None:
    """Add an op that is in no block at the end of one."""
    last = block._last_op
    op.parent = block
    if last is None:
        block._first_op = op
    else:
        last._next_op = op
        op._prev_op = last
    block._last_op = op


def append_ops(block: Block, ops: Iterable[Operation]) -> None:
    """Add ops that are in no block at the end of one."""
    for op in ops:
        append_op(block, op)


def insert_ops(ops: Iterable[Operation], before: Operation) -> None:
    """Add ops that are in no block in front of another one."""
    block, previous = before.parent, before._prev_op
    assert block is not None
    for op in ops:
        op.parent = block
        op._prev_op = previous
        if previous is None:
            block._first_op = op
        else:
            previous._next_op = op
        previous = op
    if previous is not None:
        previous._next_op = before
    before._prev_op = previous


def erase_op(op: Operation) -> None:
    """Take an op whose results have no uses out of its block, for good."""
    if __debug__:
        for result in op.results:
            assert result.first_use is None, f"'{op.name}' is erased while it is used"
    block, previous, following = op.parent, op._prev_op, op._next_op
    if block is not None:
        if previous is None:
            block._first_op = following
        else:
            previous._next_op = following
        if following is None:
            block._last_op = previous
        else:
            following._prev_op = previous
        op._prev_op = op._next_op = None
    op.drop_all_references()


def walk_ops(root: Operation) -> Iterator[Operation]:
    """An op and all inside of it, outer ones first, as `root.walk()`."""
    yield root
    for region in root.regions:
        for block in region.blocks:
            op = block._first_op
            while op is not None:
                following = op._next_op
                if op.regions:
                    yield from walk_ops(op)
                else:
                    yield op
                op = following


def walk_inner_first(root: Operation) -> Iterator[Operation]:
    """All inside of an op and then it itself, inner ones first."""
    for region in root.regions:
        for block in region.blocks:
            op = block._first_op
            while op is not None:
                following = op._next_op
                if op.regions:
                    yield from walk_inner_first(op)
                else:
                    yield op
                op = following
    yield root


def ops_of(root: Operation, kind: type[_Op]) -> list[_Op]:
    """The ops of a class, which has no subclasses, at or inside another op."""
    return [op for op in walk_ops(root) if type(op) is kind]


def ops_with_regions(block: Block) -> Iterator[Operation]:
    """The ops of a block, and inside of these, that have regions; outer ones first."""
    op = block._first_op
    while op is not None:
        if op.regions:
            yield op
            for region in op.regions:
                for inner in region.blocks:
                    yield from ops_with_regions(inner)
        op = op._next_op


class AttributeNumbers:
    """Numbers for attributes, equal for equal ones.

    In keys they stand for attributes, whose hashes are computed from all they consist of, each
    time: only the first time that an object is seen, its hash is.
    """

    def __init__(self) -> None:
        self._by_object: dict[int, tuple[int, Attribute]] = {}
        self._by_value: dict[Attribute, int] = {}

    def number(self, attribute: Attribute) -> int:
        """The number of an attribute."""
        found = self._by_object.get(id(attribute))
        if found is None:
            number = self._by_value.setdefault(attribute, len(self._by_value))
            # The object is kept, for another one may have its id otherwise.
            found = self._by_object[id(attribute)] = (number, attribute)
        return found[0]


@cache
def _default_properties(kind: type[Operation]) -> tuple[tuple[str, Attribute], ...]:
    if not issubclass(kind, IRDLOperation):
        return ()
    definition = kind.get_irdl_definition()
    assert not any(d.default_value is not None for d in definition.attributes.values())
    return tuple(
        (name, each.default_value)
        for name, each in definition.properties.items()
        if not isinstance(each, OptionalDef) and each.default_value is not None
    )


def copy_name(old: SSAValue, new: SSAValue) -> None:
    """Give a value the name of another."""
    new._name = old._name


def keep_name(old: SSAValue, new: SSAValue) -> None:
    """Give a value the name of another, unless it has one."""
    if new._name is None:
        new._name = old._name
