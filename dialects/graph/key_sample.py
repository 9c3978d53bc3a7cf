"""Which of many keys may be among the least, as far as a sample of them tells."""

from __future__ import annotations

from math import ceil, sqrt

from tcopt.dialects.graph.key_digits import choose_by_digits
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter, Scalar
from tcopt.dialects.te.dtypes import is_unsigned
from tcopt.dialects.te.scalar import width_of

_LEAST_EXTENT = 4096
"""From so many keys on a sample pays."""
_SAMPLE = 1024
"""Keys of a sample, about."""
_MOST_KEPT = 4
"""A sample pays where it leaves one key out of so many."""
_LANES, _ROWS = 16, 4
"""Keys are passed by in blocks of so many vectors."""


def is_sampled(extent: int, count: int) -> bool:
    """Whether it pays to draw a sample before the `count` least of some keys are chosen."""
    stride, taken = _sample(extent, count)
    return extent >= _LEAST_EXTENT and taken * stride * _MOST_KEPT <= extent


def near_least(k: KernelWriter, count: int, keys: Buffer) -> tuple[Buffer, Buffer, Scalar]:
    """Places and keys that hold the `count` least ones, in order of their places.

    A key of the sample bounds them: of such a rank in it that hardly ever fewer than `count` keys
    are below. If there are fewer, all keys are returned.

    Returns:
        The places, the keys, and how many there are.
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
    """The distance between keys of the sample, and which of them, by rank, is the bound."""
    # Rows of images have even lengths: an odd distance does not stay in one column.
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
    """The least key of a block."""
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
