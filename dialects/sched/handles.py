"""Handles on blocks and loops, and knobs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import I64, DenseArrayBase, IndexType, IntegerAttr, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.sched.base import Resolve, SchedOp
from tcopt.dialects.sched.types import BlockType, LoopType

_SPACE = r"(?:\s|//[^\n]*\n)*+"
_NAME = rf"%[\w$.-]++(?:{_SPACE}:{_SPACE}\d++)?+"
_RESULTS = re.compile(
    rf"({_NAME}(?:{_SPACE},{_SPACE}{_NAME})*+){_SPACE}={_SPACE}[\w.]*get_loops{_SPACE}$"
)
_COMMENT = re.compile(r"//[^\n]*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


@irdl_op_definition
class GetBlockOp(SchedOp):
    """A handle on the block with this name: `%mm = sched.get_block "mm"`."""

    name = "sched.get_block"

    block_name = prop_def(StringAttr)
    result = result_def(BlockType())

    traits = traits_def(Pure())
    assembly_format = "$block_name attr-dict"

    def __init__(self, name: str):
        super().__init__(properties={"block_name": StringAttr(name)}, result_types=[BlockType()])

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (self.block_name.data,)


@irdl_op_definition
class GetLoopsOp(SchedOp):
    """Handles on the current loops around a block, outermost first.

    `%i, %j, %k = sched.get_loops %mm`
    """

    name = "sched.get_loops"

    block = operand_def(BlockType())
    loops = var_result_def(LoopType())

    traits = traits_def(Pure())

    def __init__(self, block: SSAValue, count: int):
        super().__init__(operands=[block], result_types=[[LoopType()] * count])

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (resolve(self.block),)

    @classmethod
    def parse(cls, parser: Parser) -> GetLoopsOp:
        # Only the result names before the op determine the number of loops.
        count = _count_results(parser.lexer.input.content[: parser.pos])
        block = parser.parse_operand(BlockType())
        return cls(block, count)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.block)


@irdl_op_definition
class KnobOp(SchedOp):
    """A tunable choice: a name, the candidates, and the current value.

    `%tile = sched.knob "tile_j" of [16, 32, 64] = 32`
    """

    name = "sched.knob"

    knob_name = prop_def(StringAttr)
    candidates = prop_def(DenseArrayBase[I64])
    value = prop_def(IntegerAttr)
    result = result_def(IndexType())

    traits = traits_def(Pure())

    def __init__(self, name: str, candidates: Sequence[int], value: int):
        super().__init__(
            properties={
                "knob_name": StringAttr(name),
                "candidates": DenseArrayBase.from_list(i64, candidates),
                "value": IntegerAttr(value, i64),
            },
            result_types=[IndexType()],
        )

    def verify_(self) -> None:
        choices = self.candidate_values
        if self.value.value.data not in choices:
            raise VerifyException(
                f"the value {self.value.value.data} is not one of the candidates {list(choices)}"
            )
        if len(set(choices)) != len(choices):
            raise VerifyException("a candidate is listed twice")

    @property
    def candidate_values(self) -> tuple[int, ...]:
        """The values that the knob may take."""
        return tuple(int(v) for v in self.candidates.get_values())

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            self.knob_name.data,
            list(self.candidate_values),
            self.value.value.data,
        )

    @classmethod
    def parse(cls, parser: Parser) -> KnobOp:
        name = parser.parse_str_literal()
        parser.parse_keyword("of")
        candidates = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
        parser.parse_punctuation("=")
        return cls(name, candidates, parser.parse_integer(allow_boolean=False))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.knob_name.data)
        printer.print_string(f" of {list(self.candidate_values)} = {self.value.value.data}")


def _count_results(text: str) -> int:
    """Return the number of results of the op whose name ends a text."""
    size = 1024
    while True:
        part = text[max(len(text) - size, 0) :]
        found = _results_at_end(part)
        # If the part holds nothing but names, the list may continue before it.
        if size >= len(text) or (found is not None and "%" in part[: found.start()]):
            break
        size *= 4
    count = 0
    for name in _COMMENT.sub("", found.group(1)).split(",") if found else ():
        _, _, several = name.partition(":")
        count += int(several) if several.strip() else 1
    return count


def _results_at_end(text: str) -> re.Match[str] | None:
    """Match the list of results that ends a text, unless it starts inside a comment."""
    start = 0
    while (found := _RESULTS.search(text, start)) is not None:
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if "//" not in _STRING.sub("", line):
            return found
        start = found.start() + 1
    return None
