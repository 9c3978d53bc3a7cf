"""vdla.kernel: micro-ops in two loops, which gemm and alu instructions execute."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr, i64
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.accelerator import TableOp
from tcopt.dialects.accelerator.tasks import Entries, compact
from tcopt.dialects.target import vdla_target_of
from tcopt.dialects.vdla.attrs import KernelKind, KernelKindAttr, KernelType
from tcopt.dialects.vdla.fields import check_entry, check_field
from tcopt.dialects.vdla.indices import Indices, step_indices
from tcopt.support.ir.literals import INTEGERS, Integers, integers, number_list
from tcopt.support.memo import memo

Rows = Sequence[Sequence[int]]

FIELDS = {KernelKind.GEMM: ("dst", "src", "wgt"), KernelKind.ALU: ("dst", "src")}
"""Fields of a micro-op by kind of kernel, each the entry of a memory."""

_MOST_LOOPS = 2


@irdl_op_definition
class KernelOp(TableOp):
    """Micro-ops in at most two loops, outermost first, with an address in the memory `uop`.

        %k = vdla.kernel gemm at 0 [28, 3] dst [1, 0] src [1, 1] wgt [0, 1] {
          uop 0, 0, 0
          uop 28, 30, 0
        }

    A gemm executes `for i, j, u: acc[u.dst + i*dst0 + j*dst1] += inp[u.src + ..] . wgt[..]^T`. An
    alu kernel has no `wgt`, and its `dst` and `src` are registers. The micro-ops must have been
    loaded to their address (`vdla.load_uops`) before they are executed.
    """

    name = "vdla.kernel"

    kind = prop_def(KernelKindAttr)
    at = prop_def(IntegerAttr[I64])
    """The entry of `uop` that holds the first micro-op."""
    loops = prop_def(INTEGERS)
    factors = prop_def(INTEGERS)
    """The step of each field of a micro-op in each loop."""
    micro_ops = prop_def(INTEGERS)
    """The fields of all micro-ops, concatenated."""
    result = result_def(KernelType)

    traits = traits_def(NoMemoryEffect())

    def __init__(
        self, kind: KernelKind, at: int, loops: Sequence[int], factors: Rows, micro_ops: Rows
    ):
        """`factors` has a row for each field, `micro_ops` a row for each micro-op."""
        super().__init__(
            properties={
                "kind": KernelKindAttr(kind),
                "at": IntegerAttr(at, i64),
                "loops": number_list(*loops),
                "factors": number_list(*(n for row in factors for n in row)),
                "micro_ops": number_list(*(n for row in micro_ops for n in row)),
            },
            result_types=[KernelType()],
        )

    @property
    def place(self) -> int:
        """The entry of `uop` that holds the first micro-op."""
        return self.at.value.data

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of its micro-ops."""
        return FIELDS[self.kind.data]

    @property
    def extents(self) -> tuple[int, ...]:
        """Trip counts of its loops, outermost first."""
        return integers(self.loops)

    @property
    def steps(self) -> list[tuple[int, ...]]:
        """The step of each field in each loop."""
        numbers, count = integers(self.factors), len(self.extents)
        return [numbers[n * count : (n + 1) * count] for n in range(len(self.fields))]

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The fields of each micro-op."""
        numbers, count = integers(self.micro_ops), len(self.fields)
        return [numbers[n : n + count] for n in range(0, len(numbers), count)]

    @property
    def size(self) -> int:
        """The number of micro-ops."""
        return len(self.micro_ops) // len(self.fields)

    @property
    def count(self) -> int:
        """The number of micro-op executions."""
        return prod(self.extents) * self.size

    def accesses(self) -> tuple[Entries, ...]:
        """Return the distinct entries that each field addresses."""
        return _accesses(self.extents, tuple(self.steps), self.micro_ops)

    def rewrite_within(self, distance: int) -> tuple[int, int] | None:
        """Return a register that is written again within fewer than `distance` micro-ops, and
        after how many; None if there is none."""
        return _rewrite_within(self.extents, tuple(self.steps), self.micro_ops, distance)

    def last_entries(self) -> dict[str, int]:
        """Return the highest entry that each field addresses."""
        ends: dict[str, int] = {}
        for position, (field, steps) in enumerate(zip(self.fields, self.steps, strict=True)):
            moved = sum((n - 1) * step for n, step in zip(self.extents, steps, strict=False))
            ends[field] = moved + max(row[position] for row in self.rows)
        return ends

    def verify_(self) -> None:
        count = len(self.fields)
        if len(self.loops) > _MOST_LOOPS:
            raise VerifyException("a kernel has at most two loops")
        if len(self.factors) != count * len(self.loops):
            raise VerifyException("each field of a micro-op has a factor for each loop")
        if not len(self.micro_ops) or len(self.micro_ops) % count:
            raise VerifyException(f"micro-ops of {self.kind.data} have {count} numbers each")
        for extent in self.extents:
            check_field("loop", extent, "the extent of a loop", least=1)
        check_field("uop_begin", self.place, "the address of its micro-ops")
        check_field("uop_end", self.place + self.size, "the end of its micro-ops")
        for field, steps in zip(self.fields, self.steps, strict=True):
            for step in steps:
                check_field(field, step, f"a factor of {field}")
        for row in self.rows:
            for field, number in zip(self.fields, row, strict=True):
                check_field(field, number, f"{field} of a micro-op")
        if (target := vdla_target_of(self)) is not None:
            check_entry("uop", self.place + self.size - 1, target)

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        kind = parser.parse_str_enum(KernelKind)
        parser.parse_keyword("at")
        at = parser.parse_integer(allow_boolean=False)
        loops = _numbers(parser)
        factors: list[list[int]] = []
        for field in FIELDS[kind] if loops else ():
            parser.parse_keyword(field)
            start = parser.pos
            factors.append(_numbers(parser))
            if len(factors[-1]) != len(loops):
                parser.raise_error("expected a factor for each loop", start, parser.pos)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation("{")
        micro_ops: list[list[int]] = []
        while parser.parse_optional_keyword("uop"):
            start = parser.pos
            micro_ops.append(
                parser.parse_comma_separated_list(
                    parser.Delimiter.NONE, lambda: parser.parse_integer(allow_boolean=False)
                )
            )
            if len(micro_ops[-1]) != len(FIELDS[kind]):
                expected = ", ".join(FIELDS[kind])
                parser.raise_error(f"expected the numbers {expected}", start, parser.pos)
        parser.parse_punctuation("}")
        op = cls(kind, at, loops, factors, micro_ops)
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        loops = self.extents
        printer.print_string(f" {self.kind.data} at {self.place} {list(loops)}")
        if loops:
            for field, steps in zip(self.fields, self.steps, strict=True):
                printer.print_string(f" {field} {list(steps)}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" {")
        with printer.indented():
            for row in self.rows:
                printer.print_string(f"\nuop {', '.join(map(str, row))}")
        printer.print_string("\n}")


Factors = tuple[tuple[int, ...], ...]


def _indices(loops: tuple[int, ...], factors: Factors, micro_ops: Integers) -> list[Indices]:
    rows = np.array(integers(micro_ops), np.int64).reshape(-1, len(factors))
    return step_indices(loops, factors, rows)


@memo(1024)
def _accesses(loops: tuple[int, ...], factors: Factors, micro_ops: Integers) -> tuple[Entries, ...]:
    return tuple(compact(np.unique(each)) for each in _indices(loops, factors, micro_ops))


@memo(1024)
def _rewrite_within(
    loops: tuple[int, ...], factors: Factors, micro_ops: Integers, limit: int
) -> tuple[int, int] | None:
    written = _indices(loops, factors, micro_ops)[0]
    for distance in range(1, limit):
        again = np.flatnonzero(written[distance:] == written[:-distance])
        if len(again):
            return int(written[again[0]]), distance
    return None


def _numbers(parser: Parser) -> list[int]:
    square = parser.Delimiter.SQUARE
    return parser.parse_comma_separated_list(
        square, lambda: parser.parse_integer(allow_boolean=False)
    )
