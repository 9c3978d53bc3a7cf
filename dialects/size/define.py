"""size.define: a size that a program computes."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, TensorType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.size.dims import DimsAttr, symbols_in
from tcopt.dialects.size.functions import function_symbols, size_of
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import symbols_of


@irdl_op_definition
class DefineOp(IRDLOperation):
    """Name an integer that a program computes as a size of what follows.

        %places, %count = graph.nonzero %flags : (tensor<64xi64>, tensor<1xi64>)
        %found = size.define %count as <found[0:64]> : tensor<1xi64>
        %y = graph.slice %places {starts = [0], sizes = <found[0:64]>}
            : tensor<64xi64, #size.dims<found[0:64]>>

    Types of later ops of the function may have the size; `size.symbols` of the function does not
    list it. The result is its value, clamped to the range. Programs check separately that the
    integer is in the range.
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
        if any(symbol.name == name for symbol in function_symbols(function)):
            raise VerifyException(f"'{name}' is an argument of the function")
        for op in block.ops:
            if op is self:
                return
            if isinstance(op, DefineOp) and op.symbol.name == name:
                raise VerifyException(f"'{name}' is defined twice")
            if any(symbol.name == name for symbol in symbols_in([r.type for r in op.results])):
                raise VerifyException(f"'{name}' is defined after an op that has it")


def defined_symbols(block: Block) -> list[Symbol]:
    """Return the sizes that ops of a block define."""
    return [op.symbol for op in block.ops if isinstance(op, DefineOp)]
