"""Scaling by arbitrary factors on an ALU with `multiply_high`.

Scaling integers by positive factors and rounding is a non-decreasing function. A multiply, add and
shift that agrees with it on both sides of each step is the same function (`step_fit`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.types import Array
from tcopt.dialects.graph.elementwise.arithmetic import AddOp
from tcopt.dialects.graph.elementwise.functions import MaxOp, MinOp
from tcopt.dialects.graph.elementwise.multiply_high import MultiplyHighOp
from tcopt.dialects.graph.elementwise.shift import ShiftLeftOp, ShiftRightOp
from tcopt.passes.graph.placement.alu.step_fit import StepFit, differing, fit_steps, steps_of
from tcopt.passes.graph.placement.alu.sum_fit import fit_sum
from tcopt.passes.graph.placement.alu_chains import AluChain
from tcopt.passes.graph.placement.registers import Reals, Registers


def integers_on_alu(chain: AluChain, reals: Reals, limits: tuple[int, int]) -> Registers | str:
    """Return integers, clamped to limits, that are a function of register contents.

    Args:
        reals: the real values whose function computes the integers.
    """
    if not chain.multiplies:
        return "its scales are not powers of two, and the alu does not multiply"
    if any((slope <= 0).any() for slope in reals.slopes):
        return "a scale is not positive"
    if len(reals.terms) == 1:
        return _of_one(chain, reals, limits)
    if len(reals.terms) == 2:
        return _of_two(chain, reals, limits)
    return "it is a sum of more than two terms"


def _of_one(chain: AluChain, reals: Reals, limits: tuple[int, int]) -> Registers | str:
    (registers,) = reals.terms
    least, most = chain.reach(registers)
    offset, within = chain.by_channel(registers.offset), registers.limits

    def function(x: Array) -> Array:
        total = x + offset
        total = total if within is None else np.clip(total, *within)
        return reals.function(total).astype(np.int64)

    # Clamping of terms reduces the range of values; the steps within it are evenly spaced.
    low = max(limits[0], int(function(least).min()))
    limits = low, max(min(limits[1], int(function(most).max())), low + 1)
    slope = reals.slopes[0].astype(np.float64)
    steps = steps_of(function, least, most, limits)
    fit = fit_steps(steps, slope)
    if fit is None and chain.slack:
        fit = fit_steps(steps, slope, slack=chain.slack)
        if fit is not None:
            share = differing(fit, steps, limits)
            _note(chain, share)
    if fit is None:
        return "no multiplication and shift reproduces all of its steps"
    value = _emitted(chain, registers.value, fit)
    bound = max(map(abs, limits))
    if fit.limits is not None:
        return Registers(value, np.zeros((), np.int64), bound)
    ends = np.abs(np.concatenate([fit(least), fit(most)]))
    bound = max(int(ends.max()), bound)
    return Registers(value, np.zeros((), np.int64), bound, limits)


def _note(chain: AluChain, share: float) -> None:
    chain.note(f"at most {chain.slack} step from the host's integers, for {share:.2g} of sums")


def _emitted(chain: AluChain, value: SSAValue, fit: StepFit) -> SSAValue:
    if fit.limits is not None:
        low, high = fit.limits
        value = chain.add(MaxOp(value, chain.table(low)))
        value = chain.add(MinOp(value, chain.table(high)))
    if fit.left:
        value = chain.add(ShiftLeftOp(value, chain.constant(fit.left)))
    value = chain.add(MultiplyHighOp(value, chain.table(fit.factor, is_register=True)))
    value = chain.add(AddOp(value, chain.table(fit.offset)))
    return _shifted(chain, value, fit.right)


def _shifted(chain: AluChain, value: SSAValue, places: Array) -> SSAValue:
    if places.min() == places.max():
        return chain.add(ShiftRightOp(value, chain.constant(int(places[0]))))
    return chain.add(ShiftRightOp(value, chain.table(places), in_range=True))


def _of_two(chain: AluChain, reals: Reals, limits: tuple[int, int]) -> Registers | str:
    """Return a sum of two terms of bytes, checked for all pairs of values."""
    settled = [chain.settled(term) for term in reals.terms]
    ranges = [_range(term, now) for term, now in zip(reals.terms, settled, strict=True)]
    if any(found is None for found in ranges):
        return "its terms are not bytes"
    if any(slope.min() != slope.max() for slope in reals.slopes):
        return "scales of a sum differ by channel"
    pairs = np.meshgrid(*[np.arange(a, b + 1) for a, b in filter(None, ranges)], indexing="ij")
    channels = len(reals.slopes[0])
    columns = [np.broadcast_to(each.reshape(-1, 1), (each.size, channels)) for each in pairs]
    wanted = reals.function(*(each[:, :1] for each in columns)).astype(np.int64)
    if wanted.shape[1] != 1 and (wanted != wanted[:, :1]).any():
        return "the addend of a sum differs by channel"
    slopes = [float(slope[0]) for slope in reals.slopes]
    flat = [each.reshape(-1).astype(np.int64) for each in pairs]
    fit = fit_sum(flat[0], flat[1], wanted[:, 0], slopes, limits)
    if fit is None and chain.slack:
        fit = fit_sum(flat[0], flat[1], wanted[:, 0], slopes, limits, slack=chain.slack)
        if fit is not None:
            found = np.clip(fit(*flat), *limits)
            share = np.count_nonzero(found != wanted[:, 0]) / len(found)
            _note(chain, share)
    if fit is None:
        return "no multiplications and shift reproduce all of its steps"
    parts: list[SSAValue] = []
    for term, factor in zip(settled, fit.factors, strict=True):
        value = chain.add(ShiftLeftOp(term.value, chain.constant(fit.left)))
        table = chain.table(np.full(channels, factor), is_register=True)
        parts.append(chain.add(MultiplyHighOp(value, table)))
    total = chain.add(AddOp(*parts))
    total = chain.add(AddOp(total, chain.table(np.full(channels, fit.offset))))
    value = chain.add(ShiftRightOp(total, chain.constant(fit.right)))
    bound = max(int(np.abs(fit(*flat)).max()), *map(abs, limits))
    return Registers(value, np.zeros((), np.int64), bound, limits)


def _range(term: Registers, settled: Registers) -> tuple[int, int] | None:
    """Return bounds of a term; None if it exceeds the range of bytes."""
    low, high = term.limits or (-settled.bound, settled.bound)
    if low < -256 or high > 256:
        return None
    return low, high
