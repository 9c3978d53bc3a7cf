"""Execution orders of a stream."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator

from tcopt.dialects.vdla import Unit
from tcopt.dialects.vdla.stream import Instruction, Stream
from tcopt.dialects.vdla.tasks.faults import fault

_PATIENCE = 12
"""Maximum number of instructions before the priorities of units change."""


def program_order(stream: Stream) -> Iterator[int]:
    """Yield all instructions in the order of the stream, ignoring tokens."""
    return iter(range(len(stream.instructions)))


def adversarial_order(stream: Stream, seed: int) -> Iterator[int]:
    """Yield an order that tokens allow, with each unit running as early or as late as possible.

    Only tokens constrain a unit: queues are unbounded.

    Raises:
        VerificationError: units wait for tokens that are never sent.
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
    """Return the next instruction of the first unit whose tokens have arrived."""
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
