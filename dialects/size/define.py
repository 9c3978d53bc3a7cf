"""size.define: a size that a program computes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
)
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.size.dims import DimsAttr, symbols_in
from tcopt.dialects.size.functions import function_symbols, size_of
from tcopt.dialects.size.syntax import symbol_text
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import symbols_of


@irdl_op_definition
class DefineOp(IRDLOperation, HasCanonicalizationPatternsInterface):
    """Name an integer that a program computes as a size of what follows.

        %places, %count = graph.nonzero %flags : (tensor<64xi64>, tensor<1xi64>)
        %found = size.define %count as <found[0:64]> : tensor<1xi64>
        %y = graph.slice %places {starts = [0], sizes = <found[0:64]>}
            : tensor<64xi64, #size.dims<found[0:64]>>

    Types and properties of later ops of the function may have the size; `size.symbols` of the
    function does not list it. The result is its value, clamped to the range. Programs check
    separately that the integer is in the range. A definition without uses is removed by
    `canonicalize`.
    """

    name = "size.define"

    count = operand_def(TensorType | MemRefType)
    size = prop_def(DimsAttr)
    result = result_def(IndexType())

    assembly_format = "$count `as` $size attr-dict `:` type($count)"

    def __init__(self, count: SSAValue, size: DimsAttr):
        super().__init__(operands=[count], properties={"size": size}, result_types=[IndexType()])

    @property
    def symbol(self) -> Symbol:
        """The size that is defined."""
        (symbol,) = symbols_of(self.size.extents[0])
        return symbol

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        """Return the pattern that removes a definition without uses."""
        return (EraseUnusedDefinition(),)

    def verify_(self) -> None:
        """Check that a new size is defined by one integer, before ops that have it."""
        (*others, extent) = self.size.extents
        symbols = symbols_of(extent)
        if others or len(symbols) != 1 or size_of(symbols[0]) != extent:
            raise VerifyException(f"defines one size, not {self.size}")
        if self.symbol.multiple != 1:
            raise VerifyException("the size cannot be a multiple of a number")
        type_ = self.count.type
        assert isa(type_, TensorType[Attribute] | MemRefType[Attribute])
        if set(type_.get_shape()) - {1} or not isinstance(type_.element_type, IntegerType):
            raise VerifyException(f"the size is one integer, not a {type_}")
        self._verify_place()

    def _verify_place(self) -> None:
        name, function = self.symbol.name, self.parent_op()
        block = self.parent
        if function is None or block is None:
            return
        if not isinstance(function, FuncOp):
            raise VerifyException("sizes are defined in the body of a function only")
        if any(symbol.name == name for symbol in function_symbols(function)):
            raise VerifyException(f"'{name}' is an argument of the function")
        for op in block.ops:
            if op is self:
                return
            if isinstance(op, DefineOp) and op.symbol.name == name:
                raise VerifyException(f"'{name}' is defined twice")
            if any(symbol.name == name for symbol in symbols_used_by(op)):
                raise VerifyException(f"'{name}' is defined after an op that has it")


class EraseUnusedDefinition(RewritePattern):
    """Remove the definition of a size that its function does not use.

        %found = size.define %count as <found[0:64]> : tensor<1xi64>
    ->
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DefineOp, rewriter: PatternRewriter) -> None:
        block = op.parent
        if block is None or op.result.first_use is not None:
            return
        if not any(op.symbol in symbols_used_by(each) for each in block.ops if each is not op):
            rewriter.erase(op)


def defined_symbols(root: Operation | Block) -> list[Symbol]:
    """Return the sizes that ops in a block, a function or a module define."""
    return [op.symbol for op in root.walk() if isinstance(op, DefineOp)]


def definitions_for(block: Block, values: Iterable[SSAValue]) -> list[DefineOp]:
    """Return the definitions in a block of the sizes in the types of values."""
    used = set(symbols_in([value.type for value in values]))
    return [op for op in block.ops if isinstance(op, DefineOp) and op.symbol in used]


# Uses are by name: an op depends on the definitions of the sizes that it has.


def symbols_used_by(op: Operation) -> tuple[Symbol, ...]:
    """Return the sizes in result types and properties of an op, and of the ops in its regions."""
    found: dict[Symbol, None] = {}
    for each in op.walk():
        found.update(dict.fromkeys(symbols_in(each.result_types)))
        if not isinstance(each, DefineOp):
            found.update(dict.fromkeys(_symbols_of_properties(each)))
    return tuple(found)


def _symbols_of_properties(op: Operation) -> Iterable[Symbol]:
    for attribute in op.properties.values():
        if isinstance(attribute, DimsAttr):
            for extent in attribute.extents:
                yield from symbols_of(extent)


def are_known_at(symbols: Iterable[Symbol], op: Operation) -> bool:
    """Whether an op may have certain sizes: its function has them as arguments, or ops before it
    define them.

    A pass that inserts or moves an op before another one asks this for the sizes of the new op.
    """
    symbols = tuple(symbols)
    known = _known_at(op) if symbols else None
    return known is None or all(symbol in known for symbol in symbols)


def _known_at(op: Operation) -> Collection[Symbol] | None:
    """Return the sizes that an op may have; None if it is not in a function."""
    found: set[Symbol] = set()
    block = op.parent
    if block is None:
        return None
    while block is not None:
        for each in block.ops:
            if each is op:
                break
            if isinstance(each, DefineOp):
                found.add(each.symbol)
        parent = block.parent_op()
        if parent is None:
            return None
        found.update(function_symbols(parent))
        op, block = parent, parent.parent
    return found


def verify_uses(op: Operation) -> None:
    """Check that the sizes of an op are arguments of its function, or defined before it.

    Raises:
        VerifyException: a size is neither, or has another range there.
    """
    used = dict.fromkeys((*symbols_in(op.result_types), *_symbols_of_properties(op)))
    # Producers of operands were checked for the sizes that they have.
    inputs = [value.type for value in op.operands if isinstance(value, OpResult)] if used else []
    given = symbols_in(inputs)
    new = [symbol for symbol in used if symbol not in given]
    known = _known_at(op) if new else None
    unknown = [] if known is None else [symbol for symbol in new if symbol not in known]
    if unknown:
        raise VerifyException(
            f"{symbol_text(unknown[0])} is neither an argument of the function nor defined before"
        )
