"""Expansion of transcendental functions into polynomials."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    ModuleOp,
    VectorType,
    f32,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.hints import isa
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects.target import target_facts_of
from tcopt.passes.kernel.math.polynomials.builder import FloatBuilder, expansions, wide_expansions
from tcopt.passes.kernel.math.polynomials.power import expand_power
from tcopt.support.errors import InputError
from tcopt.support.ir.pure_values import PureValues
from tcopt.support.ir.rewriting import rewrite


class _Builders:
    """Provides builders for one op after another, in program order.

    Constants are shared by all expansions in a block.
    """

    def __init__(self, fused: bool):
        self.fused = fused
        self._constants: dict[Block | None, PureValues] = {}

    def at(self, op: Operation) -> FloatBuilder:
        """Return a builder before an op, for values of its operands' shape."""
        type = op.operands[0].type
        shape = type if isa(type, VectorType) else None
        constants = self._constants.setdefault(op.parent, PureValues())
        return FloatBuilder(shape, self.fused, constants=constants)


@dataclass
class ExpandUnary(RewritePattern):
    """Replace a function by its polynomial.

        %y = math.exp %x : vector<16xf32>
        ->
        %0 = arith.maximumf %x, %low : vector<16xf32>
        %1 = vector.fma %0, %log2e, %round : vector<16xf32>
        ...
        %y = vector.fma %p, %scale, %zero : vector<16xf32>

    Attributes:
        op_classes: the functions to expand.
    """

    builders: _Builders
    op_classes: tuple[type[Operation], ...]

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, self.op_classes):
            return
        (operand,) = op.operands
        element = get_element_type_or_self(operand.type)
        expansion = expansions()[type(op)]
        builder = self.builders.at(op)
        if isinstance(element, Float32Type):
            result = expansion(builder, operand)
            rewriter.replace(op, builder.ops, (result,))
            for product in builder.exact:
                _add_to(product, rewriter)
        elif isinstance(element, Float16Type | BFloat16Type):
            wide = builder.add_op(arith.ExtFOp(operand, builder.type_of(f32)))
            result = builder.narrow(expansion(builder, wide), element)
            rewriter.replace(op, builder.ops, (result,))
        elif isinstance(element, Float64Type) and type(op) in wide_expansions():
            result = wide_expansions()[type(op)](builder, operand)
            rewriter.replace(op, builder.ops, (result,))


def _add_to(product: SSAValue, rewriter: PatternRewriter) -> None:
    """Fold the user of `a * b - 0`, which does not round, into the multiply-add."""
    fused, use = product.owner, product.get_user_of_unique_use()
    if not isinstance(fused, math.FmaOp | vector.FMAOp) or not isinstance(use, arith.AddfOp):
        return
    other = use.rhs if use.lhs is product else use.lhs
    terms = [*fused.operands[:2], other]
    rewriter.replace(use, type(fused).create(operands=terms, result_types=[use.result.type]))
    rewriter.erase(fused)


_LARGEST_EXPONENT = 16


@dataclass
class ExpandPower(RewritePattern):
    """Expand x^k by squaring if k is a small integer or half-integer, otherwise by logarithms.

    %y = math.powf %x, %three : vector<16xf32>
    ->
    %0 = arith.mulf %x, %x : vector<16xf32>
    %y = arith.mulf %x, %0 : vector<16xf32>
    """

    builders: _Builders

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: math.PowFOp, rewriter: PatternRewriter) -> None:
        exponent = _constant_float(op.rhs)
        builder = self.builders.at(op)
        if exponent is None or abs(exponent) > _LARGEST_EXPONENT or exponent * 2 % 1:
            _expand_any_power(builder, op, exponent, rewriter)
            return
        whole = int(abs(exponent))
        result = _integer_power(builder, op.lhs, whole) if whole else None
        if abs(exponent) % 1:
            # pow(-0.0, 0.5) is +0.0, but the square root keeps the sign.
            root = builder.add_op(math.SqrtOp(builder.add(op.lhs, 0.0)))
            result = root if result is None else builder.mul(result, root)
        if result is None:
            result = builder.constant(1.0, get_element_type_or_self(op.lhs.type))
        if exponent < 0:
            result = builder.div(1.0, result)
        rewriter.replace(op, builder.ops, (result,))


def _expand_any_power(
    builder: FloatBuilder, op: math.PowFOp, exponent: float | None, rewriter: PatternRewriter
) -> None:
    """Expand a power in f32, to which narrower floats are extended; f64 is not expanded."""
    element = get_element_type_or_self(op.lhs.type)
    base = _constant_float(op.lhs)
    if isinstance(element, Float32Type):
        result = expand_power(builder, op.lhs, op.rhs, base, exponent)
    elif isinstance(element, Float16Type | BFloat16Type):
        x, y = (builder.add_op(arith.ExtFOp(v, builder.type_of(f32))) for v in op.operands)
        result = builder.narrow(expand_power(builder, x, y, base, exponent), element)
    else:
        return
    rewriter.replace(op, builder.ops, (result,))


def _integer_power(builder: FloatBuilder, base: SSAValue, exponent: int) -> SSAValue:
    result: SSAValue | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else builder.mul(result, base)
        exponent >>= 1
        if exponent:
            base = builder.mul(base, base)
    assert result is not None
    return result


def _constant_float(value: SSAValue) -> float | None:
    """Return the value of a float constant or constant splat, or None."""
    if isinstance(value.owner, arith.ConstantOp):
        attr = value.owner.value
        if isinstance(attr, FloatAttr):
            return attr.value.data
        if isa(attr, DenseIntOrFPElementsAttr) and attr.is_splat():
            first = attr.get_values()[0]
            return float(first) if isinstance(first, int | float) else None
        return None
    if isinstance(value.owner, vector.BroadcastOp):
        return _constant_float(value.owner.source)
    return None


def has_fused_multiply_add(module: ModuleOp) -> bool:
    """Whether the module's target has fused multiply-add; true without a target."""
    target = target_facts_of(module)
    return target is None or target.has_fused_multiply_add


@dataclass(frozen=True)
class ExpandMathPass(ModulePass):
    """Replaces `math` functions on scalars and vectors of floats by arithmetic that vectorises.

    f16 and bf16 are computed in f32 and rounded. For f64, exp, expm1, tanh, log and log1p are
    expanded, and other functions are calls of the C library. Errors and special cases of each
    function are documented in `polynomials/`. A power with a small constant exponent becomes
    multiplications or a square root, any other an exponential of a logarithm.

    ```mlir
    %y = math.exp %x : vector<16xf32>
    ```
    becomes
    ```mlir
    %0 = arith.maximumf %x, %low : vector<16xf32>
    %1 = vector.fma %0, %log2e, %round : vector<16xf32>
    ...
    %y = vector.fma %p, %scale, %zero : vector<16xf32>
    ```
    """

    name = "expand-math"

    ops: tuple[str, ...] = ()
    """Names without `math.` of the ops to expand, such as `exp,tanh`; all if empty."""
    fma: bool | None = None
    """Whether to use fused multiply-add; by default if the module's target has it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = {cls.name.removeprefix("math."): cls for cls in expansions()}
        unknown = set(self.ops) - {*known, "powf"}
        if unknown:
            raise InputError(
                f"expand-math: no expansion of {', '.join(sorted(unknown))}",
                hint=f"known are {', '.join(sorted([*known, 'powf']))}",
            )
        fused = has_fused_multiply_add(op) if self.fma is None else self.fma
        builders = _Builders(fused)
        chosen = tuple(cls for name, cls in known.items() if not self.ops or name in self.ops)
        patterns: list[RewritePattern] = [ExpandUnary(builders, chosen)] if chosen else []
        if not self.ops or "powf" in self.ops:
            patterns.append(ExpandPower(builders))
        rewrite(op, patterns, once=True)
