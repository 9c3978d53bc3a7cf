"""The tokens of a stream, and streams with one token removed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from tcopt.dialects.vdla import Unit
from tcopt.dialects.vdla.stream import Stream


def token_pairs(stream: Stream) -> list[tuple[int, int]]:
    """Return sender and receiver of each token: the n-th send of a queue is matched by the n-th
    wait."""
    sent: dict[tuple[Unit, Unit], list[int]] = defaultdict(list)
    taken: dict[tuple[Unit, Unit], list[int]] = defaultdict(list)
    for number, each in enumerate(stream.instructions):
        for unit in each.pushes:
            sent[each.unit, unit].append(number)
        for unit in each.pops:
            taken[unit, each.unit].append(number)
    return [pair for queue in sent for pair in zip(sent[queue], taken[queue], strict=True)]


def without_token(stream: Stream, sender: int, taker: int) -> Stream:
    ops = list(stream.instructions)
    from_, to = ops[sender].unit, ops[taker].unit
    pushes = tuple(unit for unit in ops[sender].pushes if unit != to)
    ops[sender] = replace(ops[sender], pushes=pushes)
    ops[taker] = replace(ops[taker], pops=tuple(u for u in ops[taker].pops if u != from_))
    return replace(stream, instructions=tuple(ops))
