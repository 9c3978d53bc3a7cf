"""Export of a timeline as JSON for Perfetto and Chrome's tracing page.

There is a track for each unit, for fetch and for each channel of the port; one microsecond in the
trace is one cycle. Waits are slices too, named by what is waited for. Arrows are tokens, from the
sending to the receiving instruction. Counters show the number of tokens in each queue, and the
number of live entries in each memory of the accelerator: an entry is live from the instruction
that writes it to the last one that reads the value.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tcopt.backends.accelerator.simulator.timing import LATENCY, PORT, WORK, Slice, Timeline
from tcopt.dialects.accelerator.tasks import FETCH, Machine, Task

Event = dict[str, Any]

_PROCESS = 1


def trace_events(machine: Machine, tasks: Sequence[Task], timeline: Timeline) -> list[Event]:
    """Return the events of a trace, in the format of Chrome's tracing page."""
    tracks = [FETCH, *machine.units, *machine.port.channels]
    ids = {name: number for number, name in enumerate(tracks)}
    events: list[Event] = [_name("process_name", 0, "accelerator")]
    events += [_name("thread_name", number, name) for name, number in ids.items()]
    events += [
        {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": _PROCESS,
            "tid": n,
            "args": {"sort_index": n},
        }
        for n in ids.values()
    ]
    events += [_slice(each, tasks, ids) for each in timeline.slices]
    events += _arrows(machine, timeline, ids)
    events += _counters(timeline)
    events += _entries_in_use(machine, tasks, timeline)
    return events


def write_trace(path: Path, machine: Machine, tasks: Sequence[Task], timeline: Timeline) -> None:
    """Write a trace to a file."""
    content = {
        "traceEvents": trace_events(machine, tasks, timeline),
        "otherData": {"cycles": timeline.cycles, "unit": "1 us is one cycle"},
    }
    path.write_text(json.dumps(content), encoding="utf-8")


def _name(what: str, track: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": track, "args": {"name": name}}


def _slice(each: Slice, tasks: Sequence[Task], ids: Mapping[str, int]) -> Event:
    arguments: Event = {}
    name = f"wait: {each.cause}"
    if each.cause == WORK:
        name = "fetch" if each.task < 0 else tasks[each.task].text.partition(",")[0]
    elif each.cause in (LATENCY, PORT):
        name = f"{each.cause}"
    if each.task >= 0:
        task = tasks[each.task]
        arguments = {"task": task.number, "instruction": task.text, **_origin(task)}
        if task.bytes:
            arguments["bytes"] = task.bytes
    if each.awaited >= 0:
        arguments["waited for"] = f"{each.awaited}: {tasks[each.awaited].text}"
    return {
        "ph": "X",
        "name": name,
        "cat": "work" if each.cause == WORK else "wait",
        "pid": _PROCESS,
        "tid": ids[each.track],
        "ts": each.start,
        "dur": each.end - each.start,
        "args": arguments,
    }


def _origin(task: Task) -> Event:
    """Return the op and the location that an instruction comes from."""
    found = {} if task.source is None else {"op": task.source.name}
    return {**found, **({"location": task.place} if task.place else {})}


def _arrows(machine: Machine, timeline: Timeline, ids: Mapping[str, int]) -> Iterator[Event]:
    for number, arrow in enumerate(timeline.arrows):
        queue = machine.queues[arrow.queue]
        common: Event = {"name": f"token {arrow.queue}", "cat": "token", "id": number}
        common["pid"] = _PROCESS
        # An arrow must start inside the slice that ends there.
        sent = max(arrow.sent - 1, 0)
        yield {**common, "ph": "s", "tid": ids[queue.producer], "ts": sent}
        yield {**common, "ph": "f", "bp": "e", "tid": ids[queue.consumer], "ts": arrow.taken}


def _entries_in_use(machine: Machine, tasks: Sequence[Task], timeline: Timeline) -> Iterator[Event]:
    """Yield the number of live entries of each memory, at each change."""
    times = {each.task: each for each in timeline.slices if each.cause == WORK and each.task >= 0}
    local = [space for space in machine.spaces if space in machine.local]
    for space in local:
        changes: dict[int, int] = defaultdict(int)
        born = np.full(machine.spaces[space], -1, np.int64)
        read = np.full(machine.spaces[space], -1, np.int64)

        def bury(entries: Any, born: Any = born, read: Any = read, changes: Any = changes) -> None:
            """End the live ranges of the previous values of entries at their last reads."""
            used = (born[entries] >= 0) & (read[entries] > born[entries])
            for first, last in zip(
                born[entries][used].tolist(), read[entries][used].tolist(), strict=True
            ):
                changes[first] += 1
                changes[last] -= 1

        for task in tasks:
            when = times.get(task.number)
            if when is None:
                continue
            for access in task.reads:
                if access.space == space:
                    read[access.entries] = when.end
            for access in task.writes:
                if access.space != space or any(access is each for each in task.reads):
                    continue
                bury(access.entries)
                born[access.entries] = when.start
                read[access.entries] = -1
        bury(slice(None))
        yield from _counter("entries", space, changes)


def _counters(timeline: Timeline) -> Iterator[Event]:
    """Yield the number of tokens in each queue, at each change."""
    changes: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for arrow in timeline.arrows:
        changes[arrow.queue][arrow.sent] += 1
        changes[arrow.queue][arrow.taken] -= 1
    for queue, times in sorted(changes.items()):
        yield from _counter("tokens", queue, times)


def _counter(what: str, where: str, changes: Mapping[int, int]) -> Iterator[Event]:
    """Yield the current count at each change."""
    count = 0
    for time in sorted(changes):
        count += changes[time]
        yield {
            "ph": "C",
            "name": f"{what} {where}",
            "pid": _PROCESS,
            "tid": 0,
            "ts": time,
            "args": {what: count},
        }
