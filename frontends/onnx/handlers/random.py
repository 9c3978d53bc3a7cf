"""Handlers of random operators, which are functions of a key, a stream and the element's index.

With the attribute `seed`, it is the key, so that every run gives the same values. Without it each
run has its own key, which `Model.run(seed=...)` can fix, and each node its own stream.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import bf16, f16, f32, f64, i32
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.random_bits import RandomBitsOp
from tcopt.dialects.graph.core.types import element_of, is_float
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast, plain
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.data.random_keys import key_of

_MANTISSA: dict[Attribute, int] = {f32: 24, f16: 11, bf16: 8}
_HIGH_BITS, _LOW_BITS = 27, 26
"""Number of bits of the two words that form a double in [0, 1)."""


class NodeRandom:
    """Random numbers of one node."""

    def __init__(self, ctx: NodeContext):
        self.ctx = ctx
        seed = ctx.get_seed()
        if seed is None:
            self._key = ctx.random_key()
            digest = hashlib.blake2b(ctx.where.encode(errors="replace"), digest_size=4).digest()
            self._stream = int.from_bytes(digest, "little")
        else:
            self._key, self._stream = ctx.array(key_of(seed)), 0

    def words(self, shape: Sequence[int], bits: int, second: bool = False) -> SSAValue:
        """Return integers with `bits` random bits, at most 31."""
        stream = self._stream
        words = self.ctx.emit(RandomBitsOp(self._key, shape, stream=stream, second=second))
        places = self.ctx.array(np.array(32 - bits, np.uint32))
        return cast(self.ctx, self.ctx.emit(graph.ShiftRightOp(words, places)), i32)

    def uniform(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """Return evenly spaced uniform values in [0, 1)."""
        ctx = self.ctx
        if element == f64:
            high = cast(ctx, self.words(shape, _HIGH_BITS), f64)
            low = cast(ctx, self.words(shape, _LOW_BITS, second=True), f64)
            high = ctx.emit(graph.MulOp(high, ctx.literal(2.0**_LOW_BITS, high)))
            whole = ctx.emit(graph.AddOp(high, low))
            return ctx.emit(graph.MulOp(whole, ctx.literal(2.0**-53, whole)))
        bits = _MANTISSA[element]
        whole = cast(ctx, self.words(shape, bits), f32)
        return cast(ctx, ctx.emit(graph.MulOp(whole, ctx.literal(2.0**-bits, whole))), element)

    def normal(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """Return standard normal values (Box and Muller, 1958); doubles are computed from two
        uniform values with a resolution of 2^-31.
        """
        ctx, wide = self.ctx, f64 if element == f64 else f32
        bits = 31 if wide == f64 else _MANTISSA[f32]
        radius = cast(ctx, self.words(shape, bits), wide)
        # In (0, 1], so that the logarithm is finite.
        radius = ctx.emit(graph.AddOp(radius, ctx.literal(1.0, radius)))
        radius = ctx.emit(graph.MulOp(radius, ctx.literal(2.0**-bits, radius)))
        radius = ctx.emit(graph.LogOp(radius))
        radius = ctx.emit(graph.SqrtOp(ctx.emit(graph.MulOp(radius, ctx.literal(-2.0, radius)))))
        angle = cast(ctx, self.words(shape, bits, second=True), wide)
        angle = ctx.emit(graph.MulOp(angle, ctx.literal(2 * math.pi * 2.0**-bits, angle)))
        found = ctx.emit(graph.MulOp(radius, ctx.emit(graph.CosOp(angle))))
        return cast(ctx, found, element)


def _element(ctx: NodeContext, like: SSAValue | None = None) -> Attribute:
    """Return the element type: the attribute's, or that of the given tensor."""
    found = ctx.get_element_type("dtype", TensorProto.UNDEFINED)
    if found is None:
        found = f32 if like is None else ctx.element(like)
    if found not in (f16, bf16, f32, f64):
        ctx.malformed(f"random numbers cannot be of type {found}")
    return found


def _scaled(ctx: NodeContext, x: SSAValue, factor: float, offset: float) -> SSAValue:
    x = ctx.emit(graph.MulOp(x, ctx.literal(factor, x)))
    return ctx.emit(graph.AddOp(x, ctx.literal(offset, x)))


def _made(ctx: NodeContext, shape: Sequence[int], element: Attribute) -> SSAValue:
    """Return values of the distribution that the operator is named after."""
    ctx.check(all(extent >= 0 for extent in shape), f"shape {list(shape)} has a negative extent")
    source = NodeRandom(ctx)
    if ctx.op_type.startswith("RandomNormal"):
        normal = source.normal(shape, element)
        return _scaled(ctx, normal, ctx.get_float("scale"), ctx.get_float("mean"))
    low, high = ctx.get_float("low"), ctx.get_float("high")
    return _scaled(ctx, source.uniform(shape, element), high - low, low)


@handler("RandomNormal", "RandomUniform")
def random_tensor(ctx: NodeContext) -> SSAValue:
    """Random values of a given shape."""
    return _made(ctx, ctx.get_ints("shape") or [], _element(ctx))


@handler("RandomNormalLike", "RandomUniformLike")
def random_like(ctx: NodeContext) -> SSAValue:
    """Random values in the shape of a tensor."""
    x = ctx.input(0)
    return _made(ctx, ctx.shape(x), _element(ctx, x))


@handler("Bernoulli")
def bernoulli(ctx: NodeContext) -> SSAValue:
    """1 with the probability given by each element, 0 otherwise."""
    x = plain(ctx, ctx.input(0))
    target = ctx.get_element_type("dtype", TensorProto.UNDEFINED) or ctx.element(ctx.input(0))
    wide = f64 if ctx.element(x) == f64 else f32
    below = ctx.emit(
        graph.CompareOp(
            NodeRandom(ctx).uniform(ctx.shape(x), wide), cast(ctx, x, wide), predicate="lt"
        )
    )
    return cast(ctx, below, target)


@handler("Multinomial")
def multinomial(ctx: NodeContext) -> SSAValue:
    """Classes drawn with the given unnormalised log probabilities."""
    x, count = ctx.input(0), ctx.get_int("sample_size", 1)
    ctx.check(ctx.rank(x) == 2, f"{list(ctx.shape(x))} is not a batch of distributions")
    batch, classes = ctx.shape(x)
    ctx.check(classes > 0 and count > 0, "there is nothing to draw")
    wide = cast(ctx, x, f64 if ctx.element(x) == f64 else f32)
    shares = ctx.emit(graph.SoftmaxOp(wide, axis=1))
    sums = ctx.emit(graph.CumsumOp(shares, axis=1))
    total = ctx.emit(graph.SliceOp(sums, [0, classes - 1], [batch, 1]))
    drawn = NodeRandom(ctx).uniform((batch, count), ctx.element(wide))
    drawn = reshaped(ctx, ctx.emit(graph.MulOp(drawn, total)), (batch, count, 1))
    limits = reshaped(ctx, sums, (batch, 1, classes))
    passed = cast(ctx, ctx.emit(graph.CompareOp(limits, drawn, predicate="le")), i32)
    place = ctx.emit(graph.ReduceOp(passed, kind="sum", axes=[2]))
    # With rounding, a drawn value may reach the total.
    place = ctx.emit(graph.MinOp(place, ctx.array(np.array(classes - 1, np.int32))))
    target = ctx.get_element_type("dtype", TensorProto.INT32)
    return cast(ctx, place, target or i32)


@handler("Dropout")
def dropout(ctx: NodeContext) -> list[SSAValue | None]:
    """Dropout: in training, random elements, scaled to preserve the mean; else the data."""
    x = ctx.input(0)
    mode = ctx.optional_input(2)
    boolean = ctx.opset >= 10 or not is_float(ctx.element(x))
    kept = np.bool_(True) if boolean else ctx.builder.dtype_of(x).type(1)
    known = ctx.known(mode)
    ratio = ctx.optional_input(1)
    if mode is None or (known is not None and not known.any()) or _is_zero(ctx, ratio):
        return [x, ctx.splat(ctx.shape(x), kept) if ctx.output_used(1) else None]
    wide = f64 if ctx.element(x) == f64 else f32
    share = ctx.array(np.array(0.5, np.float64)) if ratio is None else ratio
    share = reshaped(ctx, cast(ctx, share, wide), ())
    drawn = NodeRandom(ctx).uniform(ctx.shape(x), wide)
    mask = ctx.emit(graph.CompareOp(drawn, share, predicate="ge"))
    left = ctx.emit(graph.SubOp(ctx.literal(1.0, share), share))
    scaled = ctx.emit(graph.DivOp(cast(ctx, x, wide), left))
    dropped = ctx.emit(graph.SelectOp(mask, scaled, ctx.literal(0.0, scaled)))
    result = cast(ctx, dropped, ctx.element(x))
    if known is None:
        training = reshaped(ctx, mode, ())
        result = ctx.emit(graph.SelectOp(training, result, x))
        inference = ctx.emit(graph.NotOp(training))
        mask = ctx.emit(graph.OrOp(mask, inference))
    return [result, mask if boolean else cast(ctx, mask, element_of(kept.dtype))]


def _is_zero(ctx: NodeContext, ratio: SSAValue | None) -> bool:
    known = ctx.known(ratio)
    return known is not None and not known.any()
