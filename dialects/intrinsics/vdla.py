"""What one micro-op of an accelerator does, and what a transfer does with one entry.

Loops around a call become those of an instruction, and its micro-ops (`lower-loop-to-vdla`). The
unit's shape, `rows` x `block_out` x `block_in`, is in the names: `vdla_gemm_1x16x16`. Operands lie
in the accelerator's memories. A unit of one row has no dimension for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcopt.dialects.intrinsics import Intrinsic, register_family
from tcopt.dialects.te import api as te
from tcopt.support.errors import InputError

INPUT, WEIGHT, REGISTER = "acc_input", "acc_weight", "acc_register"

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Instruction:
    """The instruction whose micro-op, or whose entry, a call is.

    Attributes:
        kind: load, store, gemm, reset or alu.
        name: of the memory of a transfer, or of the operation of the alu.
        number: what the alu takes in place of a register.
    """

    kind: str
    name: str = ""
    number: int | None = None


def _unit(family: str, extents: Shape, count: int) -> Shape:
    if len(extents) != count:
        raise InputError(
            f"there is no intrinsic '{family}_{'x'.join(map(str, extents))}'",
            hint=f"{family} has {count} extents",
        )
    return extents


def _rows(rows: int, *rest: int) -> Shape:
    """A shape without the dimension of rows where there is one row."""
    return rest if rows == 1 else (rows, *rest)


def _name(family: str, extents: Shape) -> str:
    return f"{family}_{'x'.join(map(str, extents))}"


@register_family("vdla_gemm")
def gemm(extents: Shape) -> Intrinsic:
    """out[.., o] += sum(inp[.., i] * wgt[o, i]) of bytes, in i32."""
    rows, lanes, inner = _unit("vdla_gemm", extents, 3)

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
def reset(extents: Shape) -> Intrinsic:
    """out[.., o] = 0."""
    rows, lanes = _unit("vdla_reset", extents, 2)

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


def _copy(
    family: str,
    extents: Shape,
    shape: Shape,
    types: tuple[str, str],
    scopes: dict[str, str],
    requires: Sequence[str] = (),
    *,
    padded: bool = False,
) -> Intrinsic:
    """out[..] = x[..], converted; with `padded` 0 where x has no such elements."""

    def behaviour(x: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda *at: te.cast(x[at], types[1]), name="copy")

    return Intrinsic(
        _name(family, extents),
        inputs={"x": (shape, types[0])},
        behaviour=behaviour,
        requires=[{"vdla", *requires}],
        padded=["x"] if padded else [],
        scopes=scopes,
        instruction=Instruction("load" if padded else "store", family.rpartition("_")[2]),
    )


@register_family("vdla_load_inp")
def load_inp(extents: Shape) -> Intrinsic:
    """Bytes that are factors, and zeros around them."""
    rows, inner = _unit("vdla_load_inp", extents, 2)
    shape = _rows(rows, inner)
    return _copy("vdla_load_inp", extents, shape, ("i8", "i8"), {"out": INPUT}, padded=True)


@register_family("vdla_load_wgt")
def load_wgt(extents: Shape) -> Intrinsic:
    """The bytes of one block of weights, output channels in front, and zeros around them."""
    shape = _unit("vdla_load_wgt", extents, 2)
    return _copy("vdla_load_wgt", extents, shape, ("i8", "i8"), {"out": WEIGHT}, padded=True)


@register_family("vdla_load_acc")
def load_acc(extents: Shape) -> Intrinsic:
    """Registers of 32 bits, and zeros around them."""
    rows, lanes = _unit("vdla_load_acc", extents, 2)
    shape = _rows(rows, lanes)
    return _copy("vdla_load_acc", extents, shape, ("i32", "i32"), {"out": REGISTER}, padded=True)


@register_family("vdla_load_acc8")
def load_acc8(extents: Shape) -> Intrinsic:
    """Bytes that become registers, with their signs, and zeros around them."""
    rows, lanes = _unit("vdla_load_acc8", extents, 2)
    return _copy(
        "vdla_load_acc8",
        extents,
        _rows(rows, lanes),
        ("i8", "i32"),
        {"out": REGISTER},
        ["load_i8"],
        padded=True,
    )


@register_family("vdla_store_acc")
def store_acc(extents: Shape) -> Intrinsic:
    """Registers of 32 bits."""
    rows, lanes = _unit("vdla_store_acc", extents, 2)
    shape = _rows(rows, lanes)
    return _copy("vdla_store_acc", extents, shape, ("i32", "i32"), {"x": REGISTER}, ["store_i32"])


@register_family("vdla_store_out")
def store_out(extents: Shape) -> Intrinsic:
    """The low bytes of registers."""
    rows, lanes = _unit("vdla_store_out", extents, 2)
    shape = _rows(rows, lanes)
    return _copy("vdla_store_out", extents, shape, ("i32", "i8"), {"x": REGISTER}, ["store_i8"])
