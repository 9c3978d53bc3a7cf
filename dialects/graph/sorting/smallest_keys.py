"""Selection of the smallest of many integers, in order: by ranks, insertion or radix selection."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute

from tcopt.dialects.graph.sorting.key_digits import choose_by_digits, sort_by_digits
from tcopt.dialects.graph.sorting.key_sample import is_sampled, near_least
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar
from tcopt.support.arithmetic.sizes import is_fixed, upper_bound

_MOST_RANKED = 128
"""Maximum number of keys that are all compared with each other, vectorised."""
_MOST_INSERTED = 16
"""Maximum number of selected keys that are kept sorted while the others are read."""
_FEW = 8
"""Minimum ratio of keys to selected ones for which insertion is faster than computing all ranks."""
Emit = Callable[[Scalar, Scalar], None]


def smallest(
    k: KernelWriter,
    extent: int,
    count: int,
    dtype: Attribute,
    key: Callable[[Scalar], Scalar],
    emit: Emit,
) -> None:
    """Find the indices of the `count` smallest keys; of equal ones, those with lower indices.

    The run time is approximately proportional to `extent`, whatever the keys are. Few keys are
    compared with each other, or inserted into a short list. For many keys, a sample excludes most
    of them, or radix selection finds the selected ones digit by digit; only these are sorted. The
    method is chosen for the upper bounds of sizes.

    Args:
        extent: number of keys.
        dtype: integer type of the keys.
        key: returns the key at an index.
        emit: called with a rank and the index of the key with that rank.
    """
    most, most_chosen = upper_bound(extent), upper_bound(count)
    if most_chosen * 2 > most > _MOST_RANKED:
        order, keys = k.workspace((2, extent), INDEX), k.workspace((2, extent), dtype)
        with k.loop(extent) as i:
            order[0, i], keys[0, i] = i, key(i)
        _emit_sorted(k, count, order, keys, emit)
        return
    keys = k.workspace((extent,), dtype)
    for parts in k.parts(extent):
        with parts as part, part.places() as (place, _):
            keys[place] = key(place)
    is_far_less = most > _MOST_RANKED or most_chosen * _FEW <= most
    if is_far_less and most_chosen <= _MOST_INSERTED:
        _insert(k, count, keys, emit)
    elif most <= _MOST_RANKED:
        _by_rank(k, extent, count, keys, emit)
    else:
        if is_fixed((extent, count)) and is_sampled(extent, count):
            order, keys, left = near_least(k, count, keys)
        else:
            order, left = k.workspace((extent,), INDEX), extent
            with k.loop(extent) as i:
                order[i] = i
        order, keys = choose_by_digits(k, count, order, keys, left)
        if most_chosen > _MOST_RANKED:
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


def _by_rank(k: KernelWriter, extent: int, count: int, keys: Buffer, emit: Emit) -> None:
    """Compute the rank of each key: the number of keys that precede it."""
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
    """Keep the smallest keys so far in a sorted list; skip keys not smaller than its last one."""
    keys, order = k.workspace((count,), given.dtype), k.workspace((count,), INDEX)

    def insert(new: Scalar, i: Scalar, held: Scalar | int) -> None:
        """Insert a key before the greater ones of the first `held`."""
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
