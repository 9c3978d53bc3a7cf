"""The tensor-expression dialect: each output element as an expression of input elements.

Follows section 4.1 of the TVM paper. A `te.func` holds `te.compute` stages; a stage has named
iteration axes with extents, and its body computes one element. There are no loops: a schedule
chooses the order later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    IndexType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    Operation,
    Region,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.str_enum import StrEnum

from tcopt.dialects.size import (
    DimsAttr,
    dims_attr,
    extents_of,
    function_symbols,
    parse_extent,
    print_extent,
    verify_call,
    verify_symbols,
    verify_uses,
)
from tcopt.support.arithmetic.sizes import lower_bound, symbols_of, upper_bound
from tcopt.support.ir.literals import integers, number_list
from tcopt.support.ir.quick_ir import init_op
from tcopt.support.syntax.func_syntax import parse_function, print_function


class Combiner(StrEnum):
    """How a reduction combines two values; each has an identity element.

    `max` and `min` treat integers as signed, `umax` and `umin` as unsigned. On i1, max is `or` and
    min is `and`.
    """

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    UMAX = "umax"
    UMIN = "umin"


@irdl_attr_definition
class CombinerAttr(EnumAttribute[Combiner], SpacedOpaqueSyntaxAttribute):
    """The combiner of a reduction stage."""

    name = "te.combiner"


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Terminates a stage's body with the value of one element or, in a reduction, one term."""

    name = "te.yield"

    value = operand_def()
    assembly_format = "$value attr-dict `:` type($value)"
    traits = traits_def(IsTerminator(), Pure())

    def __init__(self, value: SSAValue | Operation):
        init_op(self, [SSAValue.get(value)])


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Terminates a `te.func` with its results."""

    name = "te.return"

    values = var_operand_def()
    assembly_format = "($values^ `:` type($values))? attr-dict"
    traits = traits_def(IsTerminator())

    def __init__(self, values: Sequence[SSAValue | Operation]):
        super().__init__(operands=[values])

    def verify_(self) -> None:
        func = self.parent_op()
        if isinstance(func, FuncOp) and tuple(self.values.types) != func.function_type.outputs.data:
            raise VerifyException("returned types differ from the function's result types")


@irdl_op_definition
class ComputeOp(IRDLOperation):
    """A stage, whose body yields the element at each point of its spatial axes.

    With `reduce`, the body yields one term and the combiner folds the terms over the reduce axes,
    in no particular order. The body's block arguments are the spatial axes followed by the reduce
    axes.

    An extent may be a size of the function: `te.compute "relu" [%i = s0[1:512], %j = 768]`. The
    axis then runs to the value of the size.

    Properties:
        extents, reduce_extents: upper bounds of the extents.
        sizes: the extents of all axes, if one of them is a size.
    """

    name = "te.compute"

    stage = prop_def(StringAttr)
    extents = prop_def(DenseArrayBase.constr(i64))
    reduce_extents = prop_def(DenseArrayBase.constr(i64))
    sizes = opt_prop_def(DimsAttr)
    combiner = opt_prop_def(CombinerAttr)
    body = region_def("single_block")
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(
        self,
        stage: str,
        extents: Sequence[int],
        body: Region,
        result_type: TensorType,
        reduce_extents: Sequence[int] = (),
        combiner: Combiner | None = None,
    ):
        properties: dict[str, Attribute] = {"stage": StringAttr(stage)}
        properties |= extent_properties(extents, reduce_extents)
        if combiner is not None:
            properties["combiner"] = CombinerAttr(combiner)
        init_op(self, (), [result_type], properties, regions=[body])

    @property
    def spatial_extents(self) -> tuple[int, ...]:
        """Extents of the spatial axes; they may be sizes."""
        bounds = integers(self.extents)
        return bounds if self.sizes is None else _as_shape(self.sizes)[: len(bounds)]

    @property
    def reduction_extents(self) -> tuple[int, ...]:
        """Extents of the reduce axes; they may be sizes."""
        bounds = integers(self.reduce_extents)
        if self.sizes is None:
            return bounds
        return _as_shape(self.sizes)[len(integers(self.extents)) :]

    @property
    def all_extents(self) -> tuple[int, ...]:
        """Extents of the spatial axes, then of the reduce axes."""
        return self.spatial_extents + self.reduction_extents

    @property
    def all_bounds(self) -> tuple[int, ...]:
        """Upper bounds of `all_extents`."""
        return integers(self.extents) + integers(self.reduce_extents)

    @property
    def is_reduction(self) -> bool:
        return self.combiner is not None

    @property
    def yielded(self) -> SSAValue:
        """The value that the body yields."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last.value

    def verify_(self) -> None:
        result = self.result.type
        assert isa(result, TensorType)
        shape = extents_of(result)
        if shape != self.spatial_extents:
            raise VerifyException(
                f'stage "{self.stage.data}" has axes {list(self.spatial_extents)} '
                f"but result shape {list(shape)}"
            )
        if bool(self.reduction_extents) != self.is_reduction:
            raise VerifyException("reduce axes require a combiner, and vice versa")
        if any(lower_bound(extent) < 0 for extent in self.all_extents):
            raise VerifyException("an axis has a negative extent")
        if self.sizes is not None:
            self._verify_sizes(self.sizes)
        args = self.body.block.args
        if len(args) != len(self.all_extents) or any(a.type != IndexType() for a in args):
            raise VerifyException("the body takes one index argument for each axis")
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("the body must end with te.yield")
        if last.value.type != result.get_element_type():
            raise VerifyException(
                f"the body yields {last.value.type}, the result holds {result.get_element_type()}"
            )

    def _verify_sizes(self, sizes: DimsAttr) -> None:
        if sizes.bounds != self.all_bounds:
            raise VerifyException("the extents are not the upper bounds of the sizes")
        function = self.parent_op()
        if not isinstance(function, FuncOp):
            return
        declared = function_symbols(function)
        for extent in sizes.extents:
            for symbol in symbols_of(extent):
                if symbol not in declared:
                    raise VerifyException(
                        f"an axis has the extent {extent}, but '{symbol.name}' with this range is "
                        "not a size of the function"
                    )

    @classmethod
    def parse(cls, parser: Parser) -> ComputeOp:
        name = parser.parse_str_literal()
        axes: list[Parser.Argument] = []

        def axis() -> int:
            axes.append(parser.parse_argument(expect_type=False).resolve(IndexType()))
            parser.parse_punctuation("=")
            return cast(int, parse_extent(parser))

        square = parser.Delimiter.SQUARE
        extents = parser.parse_comma_separated_list(square, axis)
        reduce_extents: list[int] = []
        combiner = None
        if parser.parse_optional_keyword("reduce"):
            reduce_extents = parser.parse_comma_separated_list(square, axis)
            combiner = parser.parse_str_enum(Combiner)
        parser.parse_punctuation(":")
        type_pos = parser.pos
        type_ = parser.parse_type()
        if not isa(type_, TensorType):
            parser.raise_error("expected the stage's tensor type", at_position=type_pos)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(axes)
        op = cls(name, extents, body, type_, reduce_extents, combiner)
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.stage.data)
        args = self.body.block.args
        spatial = len(self.spatial_extents)

        def axis(pair: tuple[SSAValue, int]) -> None:
            printer.print_ssa_value(pair[0])
            printer.print_string(" = ")
            print_extent(printer, pair[1])

        pairs = list(zip(args, self.all_extents, strict=True))
        # Axes are named inside the body's scope, so enter it before printing them.
        printer.enter_scope()
        printer.print_string(" ")
        with printer.in_square_brackets():
            printer.print_list(pairs[:spatial], axis)
        if self.combiner is not None:
            printer.print_string(" reduce ")
            with printer.in_square_brackets():
                printer.print_list(pairs[spatial:], axis)
            printer.print_string(f" {self.combiner.data.value}")
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.exit_scope()


def _as_shape(sizes: DimsAttr) -> tuple[int, ...]:
    """Return extents as a shape; sizes have the arithmetic of integers, and are typed as ones."""
    return cast("tuple[int, ...]", sizes.extents)


def extent_properties(
    extents: Sequence[int], reduce_extents: Sequence[int] = ()
) -> dict[str, Attribute]:
    """Return the properties of a stage for extents that may be sizes."""
    properties: dict[str, Attribute] = {
        "extents": number_list(*map(upper_bound, extents)),
        "reduce_extents": number_list(*map(upper_bound, reduce_extents)),
    }
    sizes = dims_attr((*extents, *reduce_extents))
    if sizes is not None:
        properties["sizes"] = sizes
    return properties


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A function on tensors, made of stages; it becomes one kernel.

    If its types have sizes, `size.symbols` lists them and its trailing arguments hold their values:

        te.func @f(%x: tensor<512xf32, #size.dims<s0[1:512]>>, %s0: index) -> ...
            attributes {size.symbols = #size.dims<s0[1:512]>} {...}
    """

    name = "te.func"

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(self, name: str, function_type: FunctionType, body: Region):
        super().__init__(
            properties={"sym_name": StringAttr(name), "function_type": function_type},
            regions=[body],
        )

    @property
    def stages(self) -> list[ComputeOp]:
        """The stages in order."""
        return [op for op in self.body.block.ops if isinstance(op, ComputeOp)]

    @property
    def tensor_arguments(self) -> tuple[SSAValue, ...]:
        """The arguments before the sizes."""
        arguments = self.body.block.args
        return tuple(arguments[: len(arguments) - len(function_symbols(self))])

    @property
    def outputs(self) -> tuple[SSAValue, ...]:
        """The returned values."""
        last = self.body.block.last_op
        assert isinstance(last, ReturnOp)
        return tuple(last.values)

    def verify_(self) -> None:
        if tuple(self.body.block.arg_types) != self.function_type.inputs.data:
            raise VerifyException("argument types differ from the function type")
        verify_symbols(self, self.function_type.inputs.data, arguments=True)
        verify_symbols(self, self.function_type.outputs.data, arguments=False)
        if not isinstance(self.body.block.last_op, ReturnOp):
            raise VerifyException("te.func must end with te.return")
        for op in self.body.block.ops:
            if not isinstance(op, ComputeOp | ReturnOp):
                raise VerifyException(f"te.func holds te.compute stages only, found '{op.name}'")
        names = [stage.stage.data for stage in self.stages]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise VerifyException(f'two stages are named "{min(repeated)}"')

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name, type_, body, attributes = parse_function(parser)
        op = cls(name, type_, body)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        print_function(printer, self.sym_name, self.function_type, self.body, self.attributes)


@irdl_op_definition
class CallOp(IRDLOperation):
    """A call of a `te.func` from host code.

    `te.call @f(%x) sizes <batch[1:32]> : ...`: the value of each size of the function.
    """

    name = "te.call"

    callee = prop_def(SymbolRefAttr)
    arguments = var_operand_def(TensorType)
    sizes = opt_prop_def(DimsAttr)
    res = var_result_def(TensorType)

    assembly_format = (
        "$callee `(` $arguments `)` (`sizes` $sizes^)? attr-dict `:` "
        "functional-type($arguments, $res)"
    )
    traits = traits_def(Pure())

    def __init__(
        self,
        callee: str,
        arguments: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        sizes: DimsAttr | None = None,
    ):
        properties: dict[str, Attribute] = {"callee": SymbolRefAttr(callee)}
        if sizes is not None:
            properties["sizes"] = sizes
        super().__init__(operands=[arguments], properties=properties, result_types=[result_types])

    def verify_(self) -> None:
        verify_call(self, self.callee, self.arguments.types, self.res.types, self.sizes)
        verify_uses(self)
