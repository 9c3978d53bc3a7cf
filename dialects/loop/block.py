"""Blocks, the units that schedules address, and guards, which they are lowered to."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    StringAttr,
    i64,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.loop.attrs import IterKind, IterKindAttr
from tcopt.dialects.loop.conditions import merge_maps, parse_conditions, print_conditions
from tcopt.dialects.size import DimsAttr, dims_attr, extent_text, parse_extent
from tcopt.support.arithmetic.sizes import Extent, upper_bound
from tcopt.support.ir.index_maps import verify_index_map
from tcopt.support.ir.literals import INTEGERS, integers, number_list
from tcopt.support.ir.quick_ir import init_op
from tcopt.support.syntax.access_syntax import parse_index_expr, print_expr


@irdl_op_definition
class InitOp(IRDLOperation):
    """The initialisation of a reduction block. It runs once for each point of the spatial
    variables, before the first term, where all reduce variables are 0."""

    name = "loop.init"

    body = region_def("single_block")

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())
    assembly_format = "attr-dict-with-keyword $body"

    def __init__(self, body: Region):
        super().__init__(regions=[body])

    def verify_(self) -> None:
        parent = self.parent_op()
        if not isinstance(parent, BlockOp) or parent.body.block.first_op is not self:
            raise VerifyException("loop.init must be the first op of a loop.block")
        if self.body.block.args:
            raise VerifyException("the body takes no arguments")
        if IterKind.REDUCE not in parent.iter_kinds:
            raise VerifyException("loop.init needs a block with a reduce variable")


@irdl_op_definition
class BlockOp(IRDLOperation):
    """A unit of computation that schedule primitives address by name.

    `loop.block "mm" (%vi: spatial 64 = %io * 8 + %ii, %vk: reduce 512 = %k) { ... }`

    Each iteration variable has a kind, a domain `[0, extent)` and a binding over the enclosing
    loops. The body runs exactly for the bindings inside all domains, so neither a non-dividing
    split nor a halo needs a predicate. The body refers to iteration variables only, never to
    loops. An extent may be a size: `%vi: spatial s0[1:512] = %i`.
    """

    name = "loop.block"

    block_name = prop_def(StringAttr)
    kinds = prop_def(ArrayAttr[IterKindAttr])
    extents = prop_def(INTEGERS)
    sizes = opt_prop_def(DimsAttr)
    bindings = prop_def(AffineMapAttr)
    operands_ = var_operand_def(IndexType)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(
        self,
        name: str,
        kinds: Sequence[IterKind],
        extents: Sequence[Extent],
        bindings: AffineMap,
        operands: Sequence[SSAValue],
        body: Region,
    ):
        super().__init__(
            operands=[operands],
            properties={
                "block_name": StringAttr(name),
                "kinds": ArrayAttr([IterKindAttr(k) for k in kinds]),
                "extents": DenseArrayBase.from_list(i64, [upper_bound(e) for e in extents]),
                "bindings": AffineMapAttr(bindings),
            },
            regions=[body],
        )
        self.sizes = dims_attr(extents)

    @property
    def iter_kinds(self) -> tuple[IterKind, ...]:
        """The kind of each iteration variable."""
        return tuple(kind.data for kind in self.kinds)

    @property
    def domain(self) -> tuple[int, ...]:
        """The extent of each iteration variable; its upper bound if it is a size."""
        return integers(self.extents)

    @property
    def live_domain(self) -> tuple[Extent, ...]:
        """The extent of each iteration variable, a number or a size."""
        sizes = self.sizes
        return self.domain if sizes is None else sizes.extents

    @property
    def iter_vars(self) -> tuple[SSAValue, ...]:
        """The iteration variables, as arguments of the body."""
        return tuple(self.regions[0].block.args)

    @property
    def init(self) -> InitOp | None:
        """The block's `loop.init`, or None."""
        first = self.body.block.first_op
        return first if isinstance(first, InitOp) else None

    @property
    def is_reduction(self) -> bool:
        return IterKind.REDUCE in self.iter_kinds

    def is_size_guard(self, position: int) -> bool:
        """Whether a variable only excludes points, from a size on: the body does not use it."""
        return (
            self.iter_kinds[position] is IterKind.SPATIAL
            and self.iter_vars[position].first_use is None
            and not isinstance(self.live_domain[position], int)
        )

    def set_variables(self, kinds: Sequence[IterKind], extents: Sequence[Extent]) -> None:
        """Replace the kinds and extents of the iteration variables."""
        self.kinds = ArrayAttr([IterKindAttr(kind) for kind in kinds])
        self.extents = DenseArrayBase.from_list(i64, [upper_bound(e) for e in extents])
        self.sizes = dims_attr(extents)

    def rebind(self, bindings: Sequence[AffineExpr], operands: Sequence[SSAValue]) -> None:
        """Replace the bindings by one expression over `operands` for each variable."""
        self.bindings = AffineMapAttr(AffineMap(len(operands), 0, tuple(bindings)))
        self.operands = tuple(operands)

    def verify_(self) -> None:
        count = len(self.domain)
        if len(self.kinds) != count or len(self.bindings.data.results) != count:
            raise VerifyException("each iteration variable needs a kind, an extent and a binding")
        args = self.body.block.args
        if len(args) != count or any(a.type != IndexType() for a in args):
            raise VerifyException("the body takes one index argument for each variable")
        verify_index_map(self.bindings.data, len(self.operands), "the map of bindings")
        if any(extent < 0 for extent in self.domain):
            raise VerifyException("a domain has a negative extent")
        if self.sizes is not None and self.sizes.bounds != self.domain:
            raise VerifyException("the domains are not the upper bounds of the sizes")
        self._verify_no_loops_used()

    def _verify_no_loops_used(self) -> None:
        """Check that the body depends only on its variables and on buffers from outside."""
        for op in self.body.walk():
            for operand in op.operands:
                owner = operand.owner
                if isinstance(owner, Operation):
                    continue
                loop = owner.parent_op()
                if loop is not None and loop.name == "loop.for" and loop.is_ancestor(self):
                    name = f"%{operand.name_hint}" if operand.name_hint else "a loop variable"
                    raise VerifyException(
                        f"the body uses {name} of a loop outside; bind an iteration variable to it"
                    )

    @classmethod
    def parse(cls, parser: Parser) -> BlockOp:
        name = parser.parse_str_literal()
        kinds: list[IterKind] = []
        extents: list[Extent] = []
        maps: list[tuple[AffineMap, list[SSAValue]]] = []
        arguments: list[Parser.Argument] = []

        def variable() -> None:
            arguments.append(parser.parse_argument(expect_type=False).resolve(IndexType()))
            parser.parse_punctuation(":")
            kinds.append(parser.parse_str_enum(IterKind))
            extents.append(parse_extent(parser))
            parser.parse_punctuation("=")
            maps.append(parse_index_expr(parser))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, variable)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        map, operands = merge_maps(maps)
        op = cls(name, kinds, extents, map, operands, parser.parse_region(arguments))
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.block_name.data)
        printer.print_string(" ")
        # Bindings refer to outer values and variables to the body's; print both inside its scope.
        printer.enter_scope()

        def variable(position: int) -> None:
            printer.print_ssa_value(self.iter_vars[position])
            printer.print_string(f": {self.iter_kinds[position].value}")
            printer.print_string(f" {extent_text(self.live_domain[position])} = ")
            print_expr(printer, self.bindings.data.results[position], self.operands)

        with printer.in_parens():
            printer.print_list(range(len(self.domain)), variable)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.exit_scope()


@irdl_op_definition
class GuardOp(IRDLOperation):
    """Runs its body if `0 <= expr < extent` holds for every condition.

    `loop.guard ([%io * 8 + %ii] in 1000) { ... }`: lowering a block turns its domains into guards.
    """

    name = "loop.guard"

    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    extents = prop_def(INTEGERS)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(
        self, map: AffineMap, indices: Sequence[SSAValue], extents: Sequence[int], body: Region
    ):
        properties = {"map": AffineMapAttr(map), "extents": number_list(*extents)}
        init_op(self, indices, (), properties, regions=[body])

    @property
    def condition_extents(self) -> tuple[int, ...]:
        """The extent of each condition, in the order of the map."""
        return integers(self.extents)

    def verify_(self) -> None:
        if len(self.extents) != len(self.map.data.results):
            raise VerifyException("each condition needs an expression and an extent")
        verify_index_map(self.map.data, len(self.indices), "the map of conditions")
        if self.body.block.args:
            raise VerifyException("the body takes no arguments")

    @classmethod
    def parse(cls, parser: Parser) -> GuardOp:
        map, indices, extents, _ = parse_conditions(parser, with_steps=False)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(map, indices, extents, parser.parse_region(()))
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        print_conditions(printer, self.map.data, self.indices, self.condition_extents)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)


def owning_block(op: Operation) -> BlockOp | None:
    """Return the innermost block around `op`, or None."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, BlockOp):
        parent = parent.parent_op()
    return parent
