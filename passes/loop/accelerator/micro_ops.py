"""Kernels of VDLA: two hardware loops around a list of micro-ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import prod

import numpy as np

from tcopt.dialects.vdla import WIDTHS, KernelKind
from tcopt.dialects.vdla.kernel import FIELDS
from tcopt.passes.loop.accelerator.instruction_nests import InstructionAxis, Work

_LOOPS = 2


@dataclass(frozen=True)
class MicroKernel:
    """Contents of a `vdla.kernel` without its address; equal ones are shared.

    Attributes:
        loops: trip counts, the outer loop first.
        factors: stride of each field in each loop.
        rows: fields of each micro-op.
    """

    kind: KernelKind
    loops: tuple[int, ...]
    factors: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]


def kernels_of(work: Work, kind: KernelKind, *, rewrite: int, most: int) -> Iterator[MicroKernel]:
    """Yield the kernels for some work; one if its micro-ops fit.

    Two of the loops become hardware loops, chosen to leave the fewest micro-ops; the others are
    unrolled in order. Loops that are contiguous in all fields are merged. If no order keeps
    micro-ops that write the same register far enough apart, the work is split into more kernels, in
    the extreme with one micro-op each.

    Args:
        rewrite: minimum distance of micro-ops that write the same register.
        most: maximum number of micro-ops of a kernel.
    """
    fields = FIELDS[kind]
    count = len(work.first)
    if count < len(fields):
        # A reset only has a destination register; its other fields are ignored.
        rest = (0,) * (len(fields) - count)
        axes = [InstructionAxis(a.extent, (*a.steps, *rest), a.inside) for a in work.axes]
        work = replace(work, first=(*work.first, *rest), axes=tuple(axes))
    axes = _merged(work.axes)
    checked = 1 if kind is KernelKind.ALU else rewrite
    for pair in _pairs(axes, fields):
        others = [axis for axis in axes if not any(axis is each for each in pair)]
        if prod(axis.extent for axis in others) > most:
            break
        for order in permutations(others) if checked > 1 else [others]:
            kernel = _kernel(kind, work.first, pair, order)
            if checked == 1 or _keeps_distance(kernel, checked):
                yield kernel
                return
    largest = max(range(len(work.axes)), key=lambda n: (work.axes[n].extent, -n))
    for part in work.split(largest):
        yield from kernels_of(part, kind, rewrite=rewrite, most=most)


def _merged(axes: Sequence[InstructionAxis]) -> list[InstructionAxis]:
    """Merge loops that are contiguous in all fields."""
    found = [axis for axis in axes if axis.extent > 1]
    while True:
        for outer, inner in permutations(found, 2):
            if outer.steps == tuple(step * inner.extent for step in inner.steps):
                extent = outer.extent * inner.extent
                if extent >= 1 << WIDTHS["loop"]:
                    continue
                found[found.index(inner)] = InstructionAxis(extent, inner.steps, (0, extent))
                found.remove(outer)
                break
        else:
            return found


def _pairs(
    axes: Sequence[InstructionAxis], fields: Sequence[str]
) -> list[tuple[InstructionAxis, ...]]:
    """Return the candidates for the hardware loops, those with the fewest micro-ops first."""
    fitting = [
        axis
        for axis in axes
        if axis.extent < 1 << WIDTHS["loop"]
        and all(
            0 <= step < 1 << WIDTHS[field] for field, step in zip(fields, axis.steps, strict=True)
        )
    ]
    pairs = [pair for count in range(_LOOPS + 1) for pair in permutations(fitting, count)]
    return sorted(pairs, key=lambda pair: -prod(axis.extent for axis in pair))


def _kernel(
    kind: KernelKind,
    first: Sequence[int],
    loops: Sequence[InstructionAxis],
    others: Sequence[InstructionAxis],
) -> MicroKernel:
    rows = tuple(
        tuple(
            start + sum(n * axis.steps[field] for n, axis in zip(at, others, strict=True))
            for field, start in enumerate(first)
        )
        for at in product(*(range(axis.extent) for axis in others))
    )
    factors = tuple(tuple(axis.steps[field] for axis in loops) for field in range(len(first)))
    return MicroKernel(kind, tuple(axis.extent for axis in loops), factors, rows)


def _keeps_distance(kernel: MicroKernel, rewrite: int) -> bool:
    """Whether micro-ops that write the same register are at least `rewrite` apart."""
    written = np.array([row[0] for row in kernel.rows])
    for extent, step in zip(reversed(kernel.loops), reversed(kernel.factors[0]), strict=True):
        written = (np.arange(extent)[:, None] * step + written.ravel()[None, :]).ravel()
    return all(bool((written[n:] != written[:-n]).all()) for n in range(1, rewrite))
