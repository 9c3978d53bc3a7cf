"""Common subexpression elimination for pure ops while they are created."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import Pure

from tcopt.support.ir.quick_ir import AttributeNumbers, new_op


@cache
def is_pure(kind: type[Operation]) -> bool:
    """Whether ops of a class have no side effects."""
    return kind.has_trait(Pure)


class PureValues:
    """Available values of pure ops, within one block or code that will become one.

    Args:
        numbers: numbering of attributes used in keys; related tables share it.
    """

    def __init__(self, numbers: AttributeNumbers | None = None):
        self._number = (numbers or AttributeNumbers()).number
        self._known: dict[Hashable, SSAValue] = {}

    def make(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result_type: Attribute,
        properties: Mapping[str, Attribute],
        append: Callable[[Operation], object],
    ) -> SSAValue:
        """Return the value of an op: an available one, or that of a new op, which is appended."""
        key = self._key(kind, operands, result_type, properties)
        found = self._known.get(key)
        if found is None:
            op = new_op(kind, operands, (result_type,), properties)
            append(op)
            found = self._known[key] = op.results[0]
        return found

    def known(self, op: Operation) -> SSAValue:
        """Return an equal value computed earlier, or the op's own result."""
        (result,) = op.results
        key = self._key(type(op), op.operands, result.type, op.properties | op.attributes)
        return self._known.setdefault(key, result)

    def _key(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result_type: Attribute,
        properties: Mapping[str, Attribute],
    ) -> Hashable:
        number = self._number
        parts = frozenset((name, number(value)) for name, value in properties.items())
        return kind, *operands, number(result_type), parts


def insert_once(rewriter: PatternRewriter, new: Operation) -> SSAValue:
    """Insert a pure op unless an equal one precedes it in the block; return the value."""
    place, values = rewriter.insertion_point, PureValues()
    result = values.known(new)
    for use in new.operands[0].uses:
        op = use.operation
        if (
            type(op) is type(new)
            and op.parent is place.block
            and values.known(op) is result
            and (place.insert_before is None or op.is_before_in_block(place.insert_before))
        ):
            result.replace_all_uses_with(op.results[0])
            new.erase()
            return op.results[0]
    return rewriter.insert(new).results[0]
