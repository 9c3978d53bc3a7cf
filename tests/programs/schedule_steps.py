"""Random schedule steps."""

from __future__ import annotations

import random
from collections.abc import Callable

from tcopt.schedules import Schedule
from tcopt.schedules.api.handles import Block, Loop
from tcopt.support.errors import ScheduleError

Step = tuple[str, Callable[[], object]]


def random_schedule(rng: random.Random, sch: Schedule, count: int) -> list[str]:
    """Try the given number of steps; rejected ones must leave everything unchanged.

    Returns:
        The names of the accepted steps.
    """
    taken: list[str] = []
    for _ in range(count):
        if not any(sch.get_loops(block) for block in sch.blocks()):
            break
        before = str(sch.func)
        name, call = _step(rng, sch)
        try:
            call()
        except ScheduleError:
            assert str(sch.func) == before, f"{name} was refused and edited something"
        else:
            taken.append(name)
    return taken


def _step(rng: random.Random, sch: Schedule) -> Step:
    pairs = [
        (producer, consumer)
        for consumer in sch.blocks()
        for producer in sch.producers(consumer)
        if sch.get_loops(consumer) and sch.get_loops(producer)
    ]
    if pairs and rng.random() < 0.4:
        return _move(rng, sch, *rng.choice(pairs))
    block = rng.choice([each for each in sch.blocks() if sch.get_loops(each)])
    makers = (_loop_step, _block_step, _memory_step)
    return rng.choice(makers)(rng, sch, block, sch.get_loops(block))


def _move(rng: random.Random, sch: Schedule, producer: Block, consumer: Block) -> Step:
    outer, inner = (rng.choice(sch.get_loops(each)) for each in (consumer, producer))
    steps: list[Step] = [
        ("compute_at", lambda: sch.compute_at(producer, outer)),
        ("reverse_compute_at", lambda: sch.reverse_compute_at(consumer, inner)),
        ("compute_inline", lambda: sch.compute_inline(producer)),
        ("reverse_compute_inline", lambda: sch.reverse_compute_inline(consumer)),
    ]
    return rng.choice(steps)


def _loop_step(rng: random.Random, sch: Schedule, block: Block, mine: list[Loop]) -> Step:
    own = rng.choice(mine)
    factors = [rng.choice((None, 1, 2, 3, 4)) for _ in range(rng.choice((2, 2, 3)))]
    some = rng.sample(mine, min(len(mine), rng.choice((2, 3))))
    at = mine.index(own)
    note = rng.choice((3, True, False, 'a "b" // %c,'))
    steps: list[Step] = [
        ("split", lambda: sch.split(own, factors)),
        ("fuse", lambda: sch.fuse(*mine[at : at + 2])),
        ("reorder", lambda: sch.reorder(*some)),
        ("add_unit_loop", lambda: sch.add_unit_loop(rng.choice((own, block)))),
        ("parallel", lambda: sch.parallel(own)),
        ("vectorize", lambda: sch.vectorize(mine[-1])),
        ("unroll", lambda: sch.unroll(own)),
        ("bind", lambda: sch.bind(own, "threadIdx.x")),
        ("virtual_thread", lambda: sch.virtual_thread(own)),
        ("annotate", lambda: sch.annotate(own, "note", note)),
    ]
    return rng.choice(steps)


def _block_step(rng: random.Random, sch: Schedule, block: Block, mine: list[Loop]) -> Step:
    own = rng.choice(mine)
    multiples = [rng.choice((1, 4)) for _ in sch.block_op(block).domain]
    steps: list[Step] = [
        ("decompose_reduction", lambda: sch.decompose_reduction(block, own)),
        ("rfactor", lambda: sch.rfactor(own, rng.randrange(2))),
        ("pad_einsum", lambda: sch.pad_einsum(block, multiples)),
        ("prefetch", lambda: sch.prefetch(block, rng.randrange(2), mine[0], own)),
        ("tensorize", lambda: sch.tensorize(own, "s8_dot")),
    ]
    return rng.choice(steps)


def _memory_step(rng: random.Random, sch: Schedule, block: Block, mine: list[Loop]) -> Step:
    scope = rng.choice(("global", "register", "shared"))
    steps: list[Step] = [
        ("cache_read", lambda: sch.cache_read(block, rng.randrange(2), scope)),
        ("cache_write", lambda: sch.cache_write(block, scope)),
        ("set_scope", lambda: sch.set_scope(block, scope)),
        ("permute_layout", lambda: sch.permute_layout(block, rng.sample(range(2), 2))),
        ("storage_align", lambda: sch.storage_align(block, 0, 8, 4)),
        ("double_buffer", lambda: sch.double_buffer(block)),
    ]
    return rng.choice(steps)
