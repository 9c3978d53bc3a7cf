"""Radix sort of integers, and radix selection of the smallest."""

from __future__ import annotations

from collections.abc import Callable

from tcopt.dialects.loop.writer import Buffer, KernelWriter, Variable
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar
from tcopt.dialects.te.dtypes import is_unsigned
from tcopt.dialects.te.scalar import width_of

_DIGIT = 8
"""Number of bits of a digit."""


def sort_by_digits(k: KernelWriter, order: Buffer, keys: Buffer, extent: Scalar | int) -> Variable:
    """Sort indices by their keys with an LSD radix sort.

    Indices and keys are the first `extent` elements of the first halves of buffers [2, room]. A
    digit that is equal in all keys is skipped.

    Returns:
        The half of the buffers that holds the result.
    """
    half = k.variable(INDEX, 0)
    counts = k.workspace((1 << _DIGIT,), INDEX)
    # Keys minus their minimum need few digits if they are clustered.
    least, differing = k.variable(keys.dtype, keys[0, 0]), k.variable(keys.dtype, 0)
    with k.loop(extent) as i:
        least.set(least.get().minimum(keys[0, i]))
    with k.loop(extent) as i:
        own = keys[0, i] - least.get()
        keys[0, i] = own
        differing.set(differing.get() | own)
    for shift in range(0, width_of(keys.dtype), _DIGIT):
        source = half.get()

        def digit(i: Scalar | int, shift: int = shift, source: Scalar = source) -> Scalar:
            return keys[source, i].bits(shift, _DIGIT)

        with k.when(differing.get().bits(shift, _DIGIT) > 0):
            _count(k, counts, k.scalar(extent, INDEX), digit)
            start = k.variable(INDEX, 0)
            with k.loop(counts.shape[0]) as value:
                own = counts[value]
                counts[value] = start.get()
                start.set(start.get() + own)
            with k.loop(extent) as i:
                own = digit(i)
                at = counts[own]
                order[1 - source, at], keys[1 - source, at] = order[source, i], keys[source, i]
                counts[own] = at + 1
            half.set(1 - source)
    return half


def _digit(key: Scalar, shift: int) -> Scalar:
    """Return a digit of a key. The sign bit of the top digit is flipped, so that negative keys come
    first."""
    is_top = shift == width_of(key.dtype) - _DIGIT
    sign = 1 << (_DIGIT - 1) if is_top and not is_unsigned(key.dtype) else 0
    return key.bits(shift, _DIGIT, sign)


def _count(
    k: KernelWriter, counts: Buffer, extent: Scalar, digit: Callable[[Scalar], Scalar]
) -> None:
    """Count how many keys have each digit."""
    for parts in k.parts(counts.shape[0]):
        with parts as part, part.places() as (place, _):
            counts[place] = 0
    with k.loop(extent) as i:
        own = digit(i)
        counts[own] = counts[own] + 1


def choose_by_digits(
    k: KernelWriter, count: int, order: Buffer, keys: Buffer, extent: Scalar | int
) -> tuple[Buffer, Buffer]:
    """Select the `count` smallest keys and their indices.

    They are returned in the first halves of buffers [2, count]. Of equal keys, earlier ones are
    preferred. The selected keys are not sorted. The first `extent` elements of the input buffers
    are permuted.
    """
    dtype = keys.dtype
    chosen, chosen_keys = k.workspace((2, count), INDEX), k.workspace((2, count), dtype)
    left, taken = k.variable(INDEX, extent), k.variable(INDEX, 0)
    counts = k.workspace((1 << _DIGIT,), INDEX)

    def take(i: Scalar) -> None:
        at = taken.get()
        chosen[0, at], chosen_keys[0, at] = order[i], keys[i]
        taken.set(at + 1)

    for shift in range(width_of(dtype) - _DIGIT, -1, -_DIGIT):

        def digit(i: Scalar, shift: int = shift) -> Scalar:
            return _digit(keys[i], shift)

        border = _border(k, counts, left.get(), count - taken.get(), digit)
        kept = k.variable(INDEX, 0)
        with k.loop(left.get()) as i:
            own = digit(i)
            with k.when(own < border):
                take(i)
            with k.when(own.equals(border)):
                at = kept.get()
                keys[at], order[at] = keys[i], order[i]
                kept.set(at + 1)
        left.set(kept.get())
    # The remaining keys are equal.
    with k.loop(count - taken.get()) as i:
        take(i)
    return chosen, chosen_keys


def _border(
    k: KernelWriter,
    counts: Buffer,
    extent: Scalar,
    wanted: Scalar,
    digit: Callable[[Scalar], Scalar],
) -> Scalar:
    """Return the digit of the `wanted`-th smallest key."""
    _count(k, counts, extent, digit)
    border, seen = k.variable(INDEX, 0), k.variable(INDEX, 0)
    with k.loop(counts.shape[0]) as value:
        with k.when(seen.get() < wanted):
            border.set(value)
        seen.set(seen.get() + counts[value])
    return border.get()
