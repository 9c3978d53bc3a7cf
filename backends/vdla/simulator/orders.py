"""Orders in which the units may execute a stream."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator

from tcopt.dialects.vdla import Unit
from tcopt.dialects.vdla.stream import Instruction, Stream
from tcopt.dialects.vdla.tasks.faults import fault

_PATIENCE = 12
"""After at most so many instructions another unit comes first."""


def program_order(stream: Stream) -> Iterator[int]:
    """The numbers of all instructions, in the order of the stream, whatever their tokens."""
    return iter(range(len(stream.instructions)))


def adversarial_order(stream: Stream, seed: int) -> Iterator[int]:
    """An order that tokens allow, with each unit as early or as late as it may be for a while.

    Nothing but tokens holds a unit back: queues are as long as they need to be.

    Raises:
        VerificationError: units wait for tokens that nobody sends.
    """
    numbers = random.Random(seed)
    waiting: dict[Unit, deque[int]] = {unit: deque() for unit in Unit}
    for number, instruction in enumerate(stream.instructions):
        waiting[instruction.unit].append(number)
    tokens: Counter[tuple[Unit, Unit]] = Counter()
    order, patience = list(Unit), 0
    while any(waiting.values()):
        if patience == 0:
            numbers.shuffle(order)
            patience = numbers.randint(1, _PATIENCE)
        patience -= 1
        number = _next(stream, waiting, tokens, order)
        instruction = stream.instructions[number]
        unit = instruction.unit
        waiting[unit].popleft()
        tokens.subtract((other, unit) for other in instruction.pops)
        tokens.update((unit, other) for other in instruction.pushes)
        yield number


def _next(
    stream: Stream,
    waiting: dict[Unit, deque[int]],
    tokens: Counter[tuple[Unit, Unit]],
    order: list[Unit],
) -> int:
    """The next instruction of the first unit that has what it waits for."""
    for unit in order:
        if not waiting[unit]:
            continue
        number = waiting[unit][0]
        if all(tokens[other, unit] > 0 for other in stream.instructions[number].pops):
            return number
    number = min(queue[0] for queue in waiting.values() if queue)
    raise _deadlock(stream.instructions[number], number, tokens)


def _deadlock(
    instruction: Instruction, number: int, tokens: Counter[tuple[Unit, Unit]]
) -> Exception:
    missing = [unit for unit in instruction.pops if tokens[unit, instruction.unit] <= 0]
    return fault(
        f"waits for a token of the {' and the '.join(missing)} unit that is never sent",
        instruction,
        number,
    )
