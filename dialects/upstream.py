"""Gaps in xDSL that this project works around, to be closed upstream.

Missing traits of xDSL's ops are added here; ops that are missing or too restricted are in
`arith_.py`, `memref_.py`, `vector_` and `simt.py`; replacements for slow or overly strict methods
are in `support`. Each gap has a reason, and most can detect whether xDSL still has it, so that a
test finds workarounds that a new version makes obsolete. A compile only uses the traits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    ModuleOp,
    VectorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region
from xdsl.traits import Commutative, MemoryReadEffect, MemoryWriteEffect, OpTrait, Pure

XDSL_VERSION = "0.74.0"
"""The version of xDSL that the workarounds are for."""


@dataclass(frozen=True)
class Gap:
    """A limitation of xDSL.

    Attributes:
        name: the affected part of xDSL.
        reason: the limitation.
        place: the file with the workaround.
        is_open: whether xDSL still has it; None if that cannot be tested easily.
    """

    name: str
    reason: str
    place: str
    is_open: Callable[[], bool] | None = None


_TRAITS: Mapping[str, type[OpTrait]] = {
    "arith.remui": Pure,
    "arith.maxsi": Commutative,
    "arith.maxui": Commutative,
    "arith.minsi": Commutative,
    "arith.minui": Commutative,
    "vector.load": MemoryReadEffect,
    "vector.maskedload": MemoryReadEffect,
    "vector.store": MemoryWriteEffect,
    "vector.maskedstore": MemoryWriteEffect,
    "vector.bitcast": Pure,
    "vector.create_mask": Pure,
    "vector.shuffle": Pure,
}
"""Traits that ops lack; without them, generic passes assume that an op has arbitrary effects."""

_lacking: list[str] = []
"""The ops that lacked their trait."""


def add_traits(dialect: Dialect) -> None:
    """Add missing traits to the ops of a dialect of xDSL; called once for each dialect."""
    for op in dialect.operations:
        trait = _TRAITS.get(op.name)
        if trait is not None and not any(isinstance(each, trait) for each in op.traits):
            _lacking.append(op.name)
            op.traits.add_trait(trait())


def _lacks_trait(name: str) -> Callable[[], bool]:
    def lacks() -> bool:
        import_module(f"tcopt.dialects.{name.partition('.')[0]}_")
        return name in _lacking

    return lacks


def _lacks_op(name: str) -> Callable[[], bool]:
    def lacks() -> bool:
        space = name.partition(".")[0]
        home = import_module(f"xdsl.dialects.{space}")
        (dialect,) = (v for v in vars(home).values() if isinstance(v, Dialect) and v.name == space)
        return all(op.name != name for op in dialect.operations)

    return lacks


def _upstream(dialect: str) -> Any:
    return import_module(f"xdsl.dialects.{dialect}")


def _refuses(make: Callable[[], Operation]) -> Callable[[], bool]:
    def refuses() -> bool:
        try:
            make().verify()
        except Exception:
            return True
        return False

    return refuses


def _values(*types: Attribute) -> Operation:
    return _upstream("test").TestOp(result_types=types)


def _vector_of(element: Attribute) -> VectorType:
    return VectorType(element, [4])


def _cast(kind: str, source: Attribute, target: Attribute) -> Callable[[], bool]:
    return _refuses(
        lambda: getattr(_upstream("arith"), kind).create(
            operands=_values(_vector_of(source)).results, result_types=[_vector_of(target)]
        )
    )


def _compare_vectors() -> Operation:
    lhs, rhs = _values(_vector_of(f32), _vector_of(f32)).results
    found = _upstream("arith").CmpfOp(lhs, rhs, "olt")
    assert found.result.type == _vector_of(i1)
    return found


def _select_by_vector() -> Operation:
    return _upstream("arith").SelectOp(
        *_values(_vector_of(i1), _vector_of(f32), _vector_of(f32)).results
    )


def _reduce() -> Operation:
    vector = _upstream("vector")
    (source,) = _values(_vector_of(f32)).results
    found = vector.ReductionOp(source, vector.CombiningKindAttr([vector.CombiningKindFlag.ADD]))
    assert found.dest.type == f32
    return found


def _unordered_is_accepted() -> bool:
    """Whether a value may be used before the op that defines it."""
    func, test = _upstream("func"), _upstream("test")
    made = _values(i64)
    block = Block([test.TestOp(operands=made.results), made, func.ReturnOp()])
    function = func.FuncOp("f", FunctionType.from_lists([], []), Region(block))
    return not _refuses(lambda: ModuleOp([function]))()


_SCALARS = "supports scalars only, while MLIR's also supports vectors"
_MISSING = "is missing"
_LACKING = "does not declare its memory effects, or that its operands commute"
_ARITH, _VECTOR = "dialects/arith_.py", "dialects/vector_"

GAPS: tuple[Gap, ...] = (
    Gap("arith.cmpf, arith.cmpi", _SCALARS, _ARITH, _refuses(_compare_vectors)),
    Gap("arith.select", _SCALARS, _ARITH, _refuses(_select_by_vector)),
    Gap("arith.extsi, arith.extui", _SCALARS, _ARITH, _cast("ExtSIOp", i32, i64)),
    Gap("arith.trunci", _SCALARS, _ARITH, _cast("TruncIOp", i64, i32)),
    Gap("arith.fptosi, arith.fptoui", _SCALARS, _ARITH, _cast("FPToSIOp", f32, i32)),
    Gap("arith.sitofp, arith.uitofp", _SCALARS, _ARITH, _cast("SIToFPOp", i32, f32)),
    Gap(
        "arith.index_cast, arith.index_castui",
        _SCALARS,
        _ARITH,
        _cast("IndexCastOp", i32, IndexType()),
    ),
    Gap("arith.remf", _MISSING, _ARITH, _lacks_op("arith.remf")),
    Gap(
        "memref.prefetch",
        _MISSING,
        "dialects/memref_.py",
        _lacks_op("memref.prefetch"),
    ),
    *(
        Gap(f"vector.{name}", _MISSING, _VECTOR, _lacks_op(f"vector.{name}"))
        for name in (
            *("gather", "scatter", "shape_cast", "transpose", "step", "constant_mask"),
            *("extract_strided_slice", "insert_strided_slice", "from_elements"),
        )
    ),
    Gap("vector.reduction", "its constructor builds a wrong type", _VECTOR, _refuses(_reduce)),
    Gap("gpu.shuffle", _MISSING, "dialects/simt.py", _lacks_op("gpu.shuffle")),
    *(Gap(name, _LACKING, "dialects/upstream.py", _lacks_trait(name)) for name in _TRAITS),
    Gap(
        "Operation.verify",
        "accepts a value that is used before the op that defines it",
        "support/ir/verify.py",
        _unordered_is_accepted,
    ),
    Gap(
        "Operation.__init__, Block.add_op, Operation.detach, Operation.erase",
        "check invariants that hold by construction, which triples the time to create an op",
        "support/ir/quick_ir.py",
    ),
    Gap(
        "SSAValue, Operation, Attribute, accessors of operands",
        "small methods that passes call for every op take half of the time of a compile",
        "support/ir/quick_xdsl.py",
    ),
    Gap(
        "PatternRewriteWalker",
        "tries each pattern on each op, and loses the locations of replaced ops",
        "support/ir/rewriting.py",
    ),
    Gap("MLIRLexer", "takes exponential time for some strings", "support/syntax/lexer.py"),
    Gap("Printer", "prints non-ASCII strings as bytes", "support/syntax/lexer.py"),
    Gap("AffineParser", "folds while parsing, without using ranges", "support/syntax/parsing.py"),
)
