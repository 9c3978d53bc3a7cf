"""Kernel-level IR for mlir-opt, without `--allow-unregistered-dialect`."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from itertools import chain, count

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects import get_all_dialects as mlir_dialects
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.utils.hints import isa

from tcopt.support.errors import UnsupportedError
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.registries.registry import DIALECTS

OPERATION = "tcopt.op"
"""Attribute of a declaration: name of the op whose calls refer to it."""


@dataclass
class CallForeignOp(RewritePattern):
    """Replace an op of a dialect that MLIR lacks by a call of a private declaration.

        %r = simd.dot %acc, %a, %b : vector<16x2xbf16> into vector<16xf32>
        ->
        %r = func.call @simd.dot(%acc, %a, %b) : (...) -> vector<16xf32>

    Attributes:
        module: receives the declarations, one for each op name, attributes and types.
        foreign: names of the dialects that MLIR lacks.
    """

    module: ModuleOp
    foreign: Set[str]
    _declared: dict[tuple[Attribute, FunctionType], str] = field(
        default_factory=dict[tuple[Attribute, FunctionType], str]
    )

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if op.dialect_name() not in self.foreign:
            return
        if op.regions or op.successors:
            raise UnsupportedError(
                "only kernel-level ops can be exported to MLIR",
                op=op,
                hint="run the whole pipeline of a CPU first",
            )
        name = self._declaration(op)
        rewriter.replace(op, func.CallOp(name, op.operands, op.result_types))

    def _declaration(self, op: Operation) -> str:
        type_ = FunctionType.from_lists(op.operand_types, op.result_types)
        said = {OPERATION: StringAttr(op.name), **op.properties, **op.attributes}
        attributes = exported(DictionaryAttr(said), self.foreign)
        name = self._declared.get((attributes, type_))
        if name is None:
            name = self._unused(op.name)
            self._declared[attributes, type_] = name
            declared = func.FuncOp.external(name, type_.inputs.data, type_.outputs.data)
            declared.attributes["tcopt.external"] = attributes
            self.module.body.block.add_op(declared)
        return name

    def _unused(self, name: str) -> str:
        taken = {op.sym_name.data for op in self.module.ops if isinstance(op, func.FuncOp)}
        names = chain([name], (f"{name}_{number}" for number in count(1)))
        return next(each for each in names if each not in taken)


@dataclass(frozen=True)
class ExportToMlirPass(ModulePass):
    """Rewrites kernels to ops and attributes that MLIR has, so that mlir-opt can parse them.

        module attributes {tcopt.target = #target.cpu<...>}
        %r = simd.dot %acc, %a, %b : vector<16x2xbf16> into vector<16xf32>
    ->
        module attributes {tcopt.target = "#target.cpu<...>"}
        %r = func.call @simd.dot(%acc, %a, %b) : (...) -> vector<16xf32>
        func.func private @simd.dot(...) -> vector<16xf32>

    Ops of other dialects become calls of private declarations, which carry the name and the
    attributes of the op. Attributes of other dialects become strings. Control flow and memory
    accesses already use MLIR's ops. The result is only for MLIR's tools: this compiler's backends
    cannot emit the calls.
    """

    name = "export-to-mlir"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # The dialects of this package and of plugins.
        foreign = DIALECTS.keys() - mlir_dialects().keys()
        rewrite(op, [CallForeignOp(op, foreign)], once=True)
        for inner in op.walk():
            for key, value in inner.attributes.items():
                inner.attributes[key] = exported(value, foreign)


def exported(attribute: Attribute, foreign: Set[str]) -> Attribute:
    """Return an attribute in which attributes of foreign dialects are replaced by strings."""
    if isinstance(attribute, DictionaryAttr):
        items = attribute.data.items()
        return DictionaryAttr({key: exported(each, foreign) for key, each in items})
    if isa(attribute, ArrayAttr):
        return ArrayAttr([exported(each, foreign) for each in attribute.data])
    is_foreign = attribute.name.partition(".")[0] in foreign
    return StringAttr(str(attribute)) if is_foreign else attribute
