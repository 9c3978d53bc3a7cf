"""Preselection of candidates for the smallest of many keys, by a bound from a sample."""

from __future__ import annotations

from math import ceil, sqrt

from tcopt.dialects.graph.sorting.key_digits import choose_by_digits
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar
from tcopt.dialects.te.dtypes import is_unsigned
from tcopt.dialects.te.scalar import width_of

_LEAST_EXTENT = 4096
"""Minimum number of keys for which a sample pays off."""
_SAMPLE = 1024
"""Approximate number of keys in a sample."""
_MOST_KEPT = 4
"""A sample pays off if it keeps at most one key in this many."""
_LANES, _ROWS = 16, 4
"""Lanes and vectors of the blocks in which keys are tested."""


def is_sampled(extent: int, count: int) -> bool:
    """Whether drawing a sample pays off for selecting the `count` smallest keys."""
    stride, taken = _sample(extent, count)
    return extent >= _LEAST_EXTENT and taken * stride * _MOST_KEPT <= extent


def near_least(k: KernelWriter, count: int, keys: Buffer) -> tuple[Buffer, Buffer, Scalar]:
    """Return indices and keys that include the `count` smallest ones, in order of their indices.

    Keys are compared with a bound: a key of the sample, of such a rank that very rarely fewer than
    `count` keys are below it. If there are fewer, all keys are returned.

    Returns:
        The indices, the keys, and their number.
    """
    extent, dtype = keys.shape[0], keys.dtype
    bound = k.variable(dtype, _bound(k, count, keys))
    order, near = k.workspace((extent,), INDEX), k.workspace((extent,), dtype)
    held = k.variable(INDEX, 0)

    def look(place: Scalar) -> None:
        own = keys[place]
        with k.when(own <= bound.get()):
            at = held.get()
            order[at], near[at] = place, own
            held.set(at + 1)

    block = _LANES * _ROWS
    with k.loop(2) as attempt, k.when(held.get() < count):
        held.set(0)
        with k.when(attempt > 0):
            bound.set((1 << width_of(dtype) - (not is_unsigned(dtype))) - 1)
        with (
            k.loop(extent // block) as number,
            k.when(_least(k, keys, number) <= bound.get()),
            k.loop(block) as i,
        ):
            look(k.place(number, block, i))
        with k.loop(extent % block) as i:
            look(i.shifted(extent - extent % block))
    return order, near, held.get()


def _sample(extent: int, count: int) -> tuple[int, int]:
    """Return the distance between keys of the sample, and the rank of the bound in it."""
    # Rows of images have even lengths, so an odd distance does not stay in one column.
    stride = max(8, extent // _SAMPLE) | 1
    mean = count / stride
    return stride, ceil(mean + 4 * sqrt(mean) + 4)


def _bound(k: KernelWriter, count: int, keys: Buffer) -> Scalar:
    extent = keys.shape[0]
    stride, taken = _sample(extent, count)
    size = extent // stride
    order, own = k.workspace((size,), INDEX), k.workspace((size,), keys.dtype)
    with k.loop(size) as i:
        order[i], own[i] = i, keys[k.place(i, stride, k.scalar(0, INDEX))]
    _, chosen = choose_by_digits(k, taken, order, own, size)
    bound = k.variable(keys.dtype, chosen[0, 0])
    with k.loop(taken) as i:
        bound.set(bound.get().maximum(chosen[0, i]))
    return bound.get()


def _least(k: KernelWriter, keys: Buffer, number: Scalar) -> Scalar:
    """Return the smallest key of a block."""
    least = k.registers(_LANES, keys.dtype)
    for row in range(_ROWS):
        with k.lanes(number, _LANES) as (_, lane):
            own = keys[k.place(number, _LANES * _ROWS, lane, row * _LANES)]
            least[lane] = own if row == 0 else least[lane].minimum(own)
    values = [least[lane] for lane in range(_LANES)]
    while len(values) > 1:
        half = len(values) // 2
        values = [a.minimum(b) for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0]
