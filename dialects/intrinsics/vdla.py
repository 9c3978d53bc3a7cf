"""Intrinsics of the VDLA: the operation of one micro-op, or of a transfer on one entry.

Loops around a call become the loops of an instruction, and its micro-ops
(`lower-loop-to-accelerator`). The names contain the unit's shape, `rows` x `block_out` x
`block_in`, as in `vdla_gemm_1x16x16`, and the immediate operand of an alu instruction, as in
`vdla_max_1x16_by_0`. Operands are in the accelerator's memories. A unit with one row has no row
dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tcopt.dialects.intrinsics import Intrinsic, register_family
from tcopt.dialects.te import api as te
from tcopt.dialects.te.products import multiply_high
from tcopt.support.errors import InputError

INPUT, WEIGHT, REGISTER = "acc_input", "acc_weight", "acc_register"

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Instruction:
    """The instruction whose micro-op, or transfer of one entry, implements a call.

    Attributes:
        kind: load, store, gemm, reset, set or alu. Set is a reset followed by alu operations that
            produce a constant.
        name: the memory of a transfer, or the operation of the alu.
        number: the immediate operand of the alu; the value that registers are set to; or the value
            of loaded elements outside the buffer.
    """

    kind: str
    name: str = ""
    number: int | None = None


def _unit(family: str, extents: Shape, count: int, number: int | None = None) -> Shape:
    if len(extents) != count or number is not None:
        raise InputError(
            f"there is no intrinsic '{_name(family, extents, number)}'",
            hint=f"{family} has {count} extents" + ("" if number is None else " and no number"),
        )
    return extents


def _rows(rows: int, *rest: int) -> Shape:
    """Return a shape, without the row dimension if there is one row."""
    return rest if rows == 1 else (rows, *rest)


def _name(family: str, extents: Shape, number: int | None = None) -> str:
    name = f"{family}_{'x'.join(map(str, extents))}"
    return name if number is None else f"{name}_by_{number}"


@register_family("vdla_gemm")
def gemm(extents: Shape, number: int | None = None) -> Intrinsic:
    """out[.., o] += sum(inp[.., i] * wgt[o, i]) of bytes, in i32."""
    rows, lanes, inner = _unit("vdla_gemm", extents, 3, number)

    def behaviour(inp: te.Tensor, wgt: te.Tensor) -> te.Tensor:
        i = te.reduce_axis(inner, "i")

        def element(*at: te.Axis) -> te.Reduce:
            *row, o = at
            return te.sum(te.cast(inp[(*row, i)], "i32") * te.cast(wgt[o, i], "i32"), axis=i)

        return te.compute(_rows(rows, lanes), element, name="gemm")

    return Intrinsic(
        _name("vdla_gemm", extents),
        inputs={"inp": (_rows(rows, inner), "i8"), "wgt": ((lanes, inner), "i8")},
        behaviour=behaviour,
        requires=[{"vdla", f"unit_{rows}x{lanes}x{inner}"}],
        scopes={"out": REGISTER, "inp": INPUT, "wgt": WEIGHT},
        instruction=Instruction("gemm"),
    )


@register_family("vdla_reset")
def reset(extents: Shape, number: int | None = None) -> Intrinsic:
    """out[.., o] = 0."""
    rows, lanes = _unit("vdla_reset", extents, 2, number)

    def behaviour() -> te.Tensor:
        return te.compute(_rows(rows, lanes), lambda *_: te.cast(0, "i32"), name="reset")

    return Intrinsic(
        _name("vdla_reset", extents),
        inputs={},
        behaviour=behaviour,
        requires=[{"vdla"}],
        scopes={"out": REGISTER},
        instruction=Instruction("reset"),
    )


@register_family("vdla_set")
def set_registers(extents: Shape, number: int | None = None) -> Intrinsic:
    """out[.., o] = number, a 16-bit value shifted left."""
    rows, lanes = _unit("vdla_set", extents, 2)
    if number is None or parts_of(number) is None:
        raise InputError(
            f"there is no intrinsic '{_name('vdla_set', extents, number)}'",
            hint="the number of vdla_set must be a 16-bit value shifted left",
        )

    def behaviour() -> te.Tensor:
        return te.compute(_rows(rows, lanes), lambda *_: te.cast(number, "i32"), name="set")

    return Intrinsic(
        _name("vdla_set", extents, number),
        inputs={},
        behaviour=behaviour,
        requires=[{"vdla", "alu"}],
        scopes={"out": REGISTER},
        instruction=Instruction("set", number=number),
    )


def parts_of(number: int) -> tuple[int, int] | None:
    """Return a 16-bit value and the left shift that make a 32-bit number; None if impossible."""
    places = 0
    while not -_MOST <= number < _MOST and number % 2 == 0:
        number, places = number // 2, places + 1
    return (number, places) if -_MOST <= number < _MOST and places < 32 else None


def _copy(
    family: str,
    extents: Shape,
    shape: Shape,
    types: tuple[str, str],
    scopes: dict[str, str],
    requires: Sequence[str] = (),
    *,
    padded: bool = False,
    number: int | None = None,
) -> Intrinsic:
    """out[..] = x[..], converted; with `padded`, out-of-bounds elements of x are `number`, or 0."""

    def behaviour(x: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda *at: te.cast(x[at], types[1]), name="copy")

    return Intrinsic(
        _name(family, extents, number),
        inputs={"x": (shape, types[0])},
        behaviour=behaviour,
        requires=[{"vdla", *requires}],
        padded=["x"] if padded else [],
        outside=number or 0,
        scopes=scopes,
        instruction=Instruction("load" if padded else "store", family.rpartition("_")[2], number),
    )


@register_family("vdla_load_inp")
def load_inp(extents: Shape, number: int | None = None) -> Intrinsic:
    """Load input bytes, padded with zeros."""
    rows, inner = _unit("vdla_load_inp", extents, 2, number)
    shape = _rows(rows, inner)
    return _copy("vdla_load_inp", extents, shape, ("i8", "i8"), {"out": INPUT}, padded=True)


@register_family("vdla_load_wgt")
def load_wgt(extents: Shape, number: int | None = None) -> Intrinsic:
    """Load the bytes of one block of weights, output channels first, padded with zeros."""
    shape = _unit("vdla_load_wgt", extents, 2, number)
    return _copy("vdla_load_wgt", extents, shape, ("i8", "i8"), {"out": WEIGHT}, padded=True)


@register_family("vdla_load_acc")
def load_acc(extents: Shape, number: int | None = None) -> Intrinsic:
    """Load 32-bit registers, padded with zeros."""
    rows, lanes = _unit("vdla_load_acc", extents, 2, number)
    shape = _rows(rows, lanes)
    return _copy("vdla_load_acc", extents, shape, ("i32", "i32"), {"out": REGISTER}, padded=True)


@register_family("vdla_load_acc8")
def load_acc8(extents: Shape, number: int | None = None) -> Intrinsic:
    """Load bytes into registers with sign extension, padded with zeros, or with another byte if
    there is an alu."""
    rows, lanes = _unit("vdla_load_acc8", extents, 2)
    if number is not None and not -128 <= number < 128:
        raise InputError(
            f"there is no intrinsic '{_name('vdla_load_acc8', extents, number)}'",
            hint="the padding of bytes must be a byte",
        )
    return _copy(
        "vdla_load_acc8",
        extents,
        _rows(rows, lanes),
        ("i8", "i32"),
        {"out": REGISTER},
        ["load_i8"] if number is None else ["load_i8", "alu"],
        padded=True,
        number=number,
    )


@register_family("vdla_store_acc")
def store_acc(extents: Shape, number: int | None = None) -> Intrinsic:
    """Store 32-bit registers."""
    rows, lanes = _unit("vdla_store_acc", extents, 2, number)
    shape = _rows(rows, lanes)
    return _copy("vdla_store_acc", extents, shape, ("i32", "i32"), {"x": REGISTER}, ["store_i32"])


@register_family("vdla_store_out")
def store_out(extents: Shape, number: int | None = None) -> Intrinsic:
    """Store the low bytes of registers."""
    rows, lanes = _unit("vdla_store_out", extents, 2, number)
    shape = _rows(rows, lanes)
    return _copy("vdla_store_out", extents, shape, ("i32", "i8"), {"x": REGISTER}, ["store_i8"])


ALU_CODES = ("min", "max", "add", "shr")
"""Operations of every alu, each of which is a single operation of the IR."""

PRODUCT = "mulh"
"""The multiplication of an alu."""


def alu_name(code: str, unit: Shape, number: int | None = None) -> str:
    """Return the intrinsic that combines registers with other registers, or with an immediate."""
    return _name(f"vdla_{code}", unit, number)


_MOST = 1 << 15
"""Immediates of alu instructions are 16-bit and signed."""


def _declare_alu(code: str, combine: Callable[[te.Expr, te.Expr], te.Expr], *requires: str) -> None:
    """out[..] = out[..] op x[..], or `op number`, in i32."""
    family = f"vdla_{code}"

    @register_family(family)
    def alu(  # pyright: ignore[reportUnusedFunction]
        extents: Shape, number: int | None = None
    ) -> Intrinsic:
        rows, lanes = _unit(family, extents, 2)
        shape = _rows(rows, lanes)
        least, most = (-31, 31) if code == "shr" else (-_MOST, _MOST - 1)
        if number is not None and not least <= number <= most:
            raise InputError(
                f"there is no intrinsic '{_name(family, extents, number)}'",
                hint=f"the number of {family} must be {least} to {most}",
            )

        def with_register(y: te.Tensor, x: te.Tensor) -> te.Tensor:
            return te.compute(shape, lambda *at: combine(y[at], x[at]), name=code)

        def with_number(y: te.Tensor) -> te.Tensor:
            def element(*at: te.Axis) -> te.Expr:
                assert number is not None
                if code == "shr" and number < 0:
                    return te.shift_left(y[at], te.cast(-number, "i32"))
                return combine(y[at], te.cast(number, "i32"))

            return te.compute(shape, element, name=code)

        registers = {"y": (shape, "i32"), "x": (shape, "i32")}
        return Intrinsic(
            _name(family, extents, number),
            inputs=registers if number is None else {"y": (shape, "i32")},
            behaviour=with_register if number is None else with_number,
            requires=[{"vdla", "alu", *requires}],
            old="y",
            scopes={"out": REGISTER, "x": REGISTER},
            instruction=Instruction("alu", code, number),
        )


_declare_alu("min", te.minimum)
_declare_alu("max", te.maximum)
_declare_alu("add", lambda a, b: a + b)
_declare_alu("shr", te.shift_right)
_declare_alu(PRODUCT, multiply_high, "mulh")
