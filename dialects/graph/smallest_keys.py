"""The least of many integers, in order: by their ranks, by insertion, or digit by digit."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute

from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter, Scalar, Variable
from tcopt.dialects.te.dtypes import is_unsigned
from tcopt.dialects.te.scalar import width_of

_MOST_RANKED = 128
"""Up to so many keys are all compared with each other, many at once."""
_MOST_INSERTED = 16
"""Up to so many are kept in order while the others are read."""
_FEW = 8
"""Of how many one is wanted where it is found faster by insertion than by all ranks."""
_DIGIT = 8
"""Bits of a digit."""

Emit = Callable[[Scalar, Scalar], None]


def smallest(
    k: KernelWriter,
    extent: int,
    count: int,
    dtype: Attribute,
    key: Callable[[Scalar], Scalar],
    emit: Emit,
) -> None:
    """Find the places of the `count` least keys; of equal ones those at lower places.

    The time is about proportional to `extent`, whatever the keys are: few are compared with each
    other, or inserted into a short list; else the digits of the last key that belongs to them are
    found one by one, and only those are sorted that are chosen.

    Args:
        extent: how many keys there are.
        dtype: of the keys, integers.
        key: the key at a place.
        emit: takes a rank, and the place that has it.
    """
    if count * 2 > extent > _MOST_RANKED:
        order, keys = k.workspace((2, extent), INDEX), k.workspace((2, extent), dtype)
        with k.loop(extent) as i:
            order[0, i], keys[0, i] = i, key(i)
        _emit_sorted(k, count, order, keys, emit)
        return
    keys = k.workspace((extent,), dtype)
    for parts in k.parts(extent):
        with parts as part, part.places() as (place, _):
            keys[place] = key(place)
    is_far_less = extent > _MOST_RANKED or count * _FEW <= extent
    if is_far_less and count <= _MOST_INSERTED:
        _insert(k, count, keys, emit)
    elif extent <= _MOST_RANKED:
        _by_rank(k, extent, count, keys, emit)
    else:
        order, keys = _chosen(k, count, keys)
        if count > _MOST_RANKED:
            _emit_sorted(k, count, order, keys, emit)
            return
        own = k.workspace((count,), dtype)
        with k.loop(count) as i:
            own[i] = keys[0, i]
        _by_rank(k, count, count, own, lambda rank, i: emit(rank, order[0, i]))


def _emit_sorted(k: KernelWriter, count: int, order: Buffer, keys: Buffer, emit: Emit) -> None:
    half = sort_by_digits(k, order, keys, keys.shape[1])
    with k.loop(count) as i:
        emit(i, order[half.get(), i])


def sort_by_digits(k: KernelWriter, order: Buffer, keys: Buffer, extent: Scalar | int) -> Variable:
    """Sort places and their keys, the first `extent` in the first halves of buffers [2, room], by
    one digit after the other, the last one first; a digit that all have alike takes no time.

    Returns:
        In which half they are then.
    """
    half = k.variable(INDEX, 0)
    counts = k.workspace((1 << _DIGIT,), INDEX)
    # What all keys have more than the least one has few digits where they are close together.
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
    """A digit of a key; the sign bit of the first one is turned, as negative numbers come first."""
    is_top = shift == width_of(key.dtype) - _DIGIT
    sign = 1 << (_DIGIT - 1) if is_top and not is_unsigned(key.dtype) else 0
    return key.bits(shift, _DIGIT, sign)


def _count(
    k: KernelWriter, counts: Buffer, extent: Scalar, digit: Callable[[Scalar], Scalar]
) -> None:
    """How many of some keys have each digit."""
    for parts in k.parts(counts.shape[0]):
        with parts as part, part.places() as (place, _):
            counts[place] = 0
    with k.loop(extent) as i:
        own = digit(i)
        counts[own] = counts[own] + 1


def _by_rank(k: KernelWriter, extent: int, count: int, keys: Buffer, emit: Emit) -> None:
    """A key's rank is how many belong in front of it."""
    ranks = k.workspace((extent,), i32)
    for parts in k.parts(extent):
        with parts as part:
            rank = part.variables(i32)
            with part.places() as (_, lane):
                rank[lane] = 0
            with k.loop(extent) as other, part.places() as (place, lane):
                before = (keys[other] < keys[place]) | (
                    keys[other].equals(keys[place]) & (other < place)
                )
                rank[lane] = rank[lane] + k.select(before, 1, 0, i32)
            with part.places() as (place, lane):
                ranks[place] = rank[lane]
    with k.loop(extent) as i:
        rank = ranks[i].cast(INDEX)
        with k.when(rank < count):
            emit(rank, i)


def _insert(k: KernelWriter, count: int, given: Buffer, emit: Emit) -> None:
    """The least so far are kept in order; what is not less than the last of them is passed by."""
    keys, order = k.workspace((count,), given.dtype), k.workspace((count,), INDEX)

    def insert(new: Scalar, i: Scalar, held: Scalar | int) -> None:
        """Put it in front of the greater ones of the first `held`."""
        enters = k.variable(INDEX, held)
        with k.loop(held) as step:
            place = k.limited(k.scalar(held, INDEX) - 1 - step, count)
            with k.when(new < keys[place]):
                keys[place + 1], order[place + 1] = keys[place], order[place]
                enters.set(place)
        at = enters.get()
        keys[at], order[at] = new, i

    with k.loop(count) as i:
        insert(given[i], i, i)
    last = k.variable(given.dtype, keys[count - 1])
    with k.loop(given.shape[0] - count) as step:
        i = step + count
        new = given[i]
        with k.when(new < last.get()):
            insert(new, i, count - 1)
            last.set(keys[count - 1])
    with k.loop(count) as i:
        emit(i, order[i])


def _chosen(k: KernelWriter, count: int, keys: Buffer) -> tuple[Buffer, Buffer]:
    """The places and keys that are chosen, in the first halves of buffers [2, count].

    Of equal keys the lower places come first; else they are in no order.
    """
    dtype, extent = keys.dtype, keys.shape[0]
    order = k.workspace((extent,), INDEX)
    chosen, chosen_keys = k.workspace((2, count), INDEX), k.workspace((2, count), dtype)
    with k.loop(extent) as i:
        order[i] = i
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
    # What is left is equal.
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
    """The digit of the last of the `wanted` least of some keys."""
    _count(k, counts, extent, digit)
    border, seen = k.variable(INDEX, 0), k.variable(INDEX, 0)
    with k.loop(counts.shape[0]) as value:
        with k.when(seen.get() < wanted):
            border.set(value)
        seen.set(seen.get() + counts[value])
    return border.get()
