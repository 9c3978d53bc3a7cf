"""Timing of a program: an event-driven model of units, queues and the port.

- Instructions are fetched in bursts through the port and dispatched to the queues of their units,
  one per cycle, in order: a full queue blocks all instructions after it.
- A unit takes the next instruction from its queue, waits for its tokens, executes it, and sends
  its tokens. A token that does not fit in its queue is an error.
- A task with a transfer requests the port, occupies it for the cycles of its rows and bytes, and
  is done after the latency; meanwhile the port is available to others. Requests are served in
  order or by priority; requests of the same cycle are always served by priority.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tcopt.dialects.accelerator.tasks import FETCH, Machine, Task
from tcopt.support.errors import VerificationError

PORT = "port"
"""The cause of waiting for a channel of the port."""
WORK = "work"
"""The cause of a slice in which a unit executes an instruction."""

_LAST = 1 << 60
"""Sequence numbers of events that come after all others of their cycle."""

INSTRUCTION = "instruction"
LATENCY = "latency"


@dataclass(frozen=True)
class Slice:
    """An interval in which a unit or the port is in one state.

    Attributes:
        track: a unit, `fetch` or `port`.
        cause: `work`, or what is waited for: `instruction`, `port`, `latency`, the name of a token
            queue or command queue (`queue UNIT`), or another reason in `Task.causes`.
        task: the number of the task; -1 for a fetch.
        awaited: the task that ended the wait; -1 if there is none.
    """

    track: str
    cause: str
    start: int
    end: int
    task: int
    awaited: int = -1


@dataclass(frozen=True)
class Arrow:
    """The transport of a token: sent when a task is done, taken when another one starts."""

    queue: str
    sender: int
    sent: int
    receiver: int
    taken: int


@dataclass
class Timeline:
    """Record of a run.

    Attributes:
        cycles: from the call to the end of the program.
        busy: cycles of work by unit, and of transfers by the port.
        stalls: cycles of waiting by unit and cause, until the program ends.
        bytes: bytes transferred by the port, by unit.
    """

    cycles: int = 0
    busy: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    stalls: dict[str, dict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )
    bytes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    slices: list[Slice] = field(default_factory=list[Slice])
    arrows: list[Arrow] = field(default_factory=list[Arrow])


def simulate(machine: Machine, tasks: Sequence[Task]) -> Timeline:
    """Simulate tasks on a machine.

    Raises:
        VerificationError: there is a deadlock, or a token queue overflows.
    """
    return _Simulation(machine, tasks).run()


@dataclass
class _Unit:
    """State of a unit: its queued instructions, and its current one.

    Attributes:
        since: when it began to wait.
    """

    name: str
    commands: deque[int] = field(default_factory=deque[int])
    current: int = -1
    is_busy: bool = False
    since: int = 0


@dataclass(frozen=True)
class _Request:
    """A request of a unit for a channel of the port."""

    order: tuple[int, int, int]
    cycles: int
    granted: Callable[[int], None]
    task: int


@dataclass
class _Channel:
    """A channel of the port, with pending requests."""

    name: str
    is_free: bool = True
    requests: list[_Request] = field(default_factory=list[_Request])


class _Simulation:
    def __init__(self, machine: Machine, tasks: Sequence[Task]):
        self.machine = machine
        self.tasks = tasks
        self.timeline = Timeline()
        self.now = machine.fetch.start
        self.units = {name: _Unit(name, since=self.now) for name in machine.units}
        self.tokens: dict[str, deque[tuple[int, int]]] = {name: deque() for name in machine.queues}
        self.done: dict[int, int] = {}
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        self.fetched: deque[int] = deque()
        self.next_fetch = 0
        self.fetch_wait = -1
        self.fetch_waits_for: _Unit | None = None
        self.channels = {name: _Channel(name) for name in machine.port.channels}
        self.ended = -1
        priorities = machine.priorities
        self.priority = {name: number for number, name in enumerate(priorities)}

    def run(self) -> Timeline:
        if self.now:
            self.timeline.slices.append(Slice(FETCH, "start", 0, self.now, -1))
        self.at(self.now, self.fetch)
        while self.events:
            time, _, action = heapq.heappop(self.events)
            self.now = time
            action()
        if len(self.done) < len(self.tasks):
            raise self.stuck()
        timeline = self.timeline
        timeline.cycles = self.ended if self.ended >= 0 else self.now
        for unit in self.units.values():
            self.wait(unit, INSTRUCTION, -1)
        return timeline

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Schedule an action; actions at the same time run in the order of scheduling."""
        self.count += 1
        heapq.heappush(self.events, (time, self.count, action))

    def at_end(self, channel: _Channel) -> None:
        """Schedule arbitration of a channel after all other events of this cycle."""
        self.count += 1
        heapq.heappush(self.events, (self.now, _LAST + self.count, lambda: self.grant(channel)))

    # Fetch.

    def fetch(self) -> None:
        """Request the next burst of instructions."""
        first = self.next_fetch
        last = min(first + self.machine.fetch.burst, len(self.tasks))
        if first >= last:
            return
        self.next_fetch = last
        cycles = self.machine.fetch.cycles
        started = self.now

        def granted(time: int) -> None:
            self.slice(FETCH, PORT, started, time, -1)
            self.slice(FETCH, WORK, time, time + cycles + self.machine.port.latency, -1)
            self.at(time + cycles + self.machine.port.latency, arrived)

        def arrived() -> None:
            self.fetched.extend(range(first, last))
            self.dispatch()

        if cycles:
            self.ask(FETCH, self.machine.port.channels[0], cycles, granted, -1)
        else:
            self.at(started, arrived)

    def dispatch(self) -> None:
        """Dispatch the next instruction to its unit, unless the unit's queue is full."""
        if not self.fetched:
            self.fetch()
            return
        number = self.fetched[0]
        unit = self.units[self.tasks[number].unit]
        if len(unit.commands) >= self.machine.fetch.depth:
            self.fetch_wait, self.fetch_waits_for = self.now, unit
            return
        if self.fetch_wait >= 0:
            self.slice(FETCH, f"queue {unit.name}", self.fetch_wait, self.now, number)
            self.fetch_wait = -1
        self.fetched.popleft()
        unit.commands.append(number)
        if unit.current < 0:
            self.take(unit)
        self.at(self.now + 1, self.dispatch)

    # Units.

    def take(self, unit: _Unit) -> None:
        """Take the next instruction from the queue."""
        if not unit.commands:
            return
        unit.current = unit.commands.popleft()
        self.wait(unit, INSTRUCTION, -1)
        if self.fetch_waits_for is unit:
            self.fetch_waits_for = None
            self.at(self.now, self.dispatch)
        self.start(unit)

    def start(self, unit: _Unit) -> None:
        """Start the current instruction if its tokens have arrived."""
        task = self.tasks[unit.current]
        if any(not self.tokens[name] for name in task.pops):
            return
        if any(number not in self.done for number in task.after):
            return
        self.note_waits(unit, task)
        for name in task.pops:
            sender, sent = self.tokens[name].popleft()
            self.timeline.arrows.append(Arrow(name, sender, sent, task.number, self.now))
        unit.is_busy = True
        if not task.port_cycles:
            self.work(unit, task, task.cycles)
            return

        def granted(time: int) -> None:
            self.wait(unit, PORT, -1)
            self.work(unit, task, task.port_cycles, self.machine.port.latency)

        self.ask(unit.name, task.channel, task.port_cycles, granted, task.number)

    def note_waits(self, unit: _Unit, task: Task) -> None:
        """Attribute the time since the instruction was taken to the events that it waited for,
        in order of arrival."""
        arrivals = [(*self.tokens[name][0][::-1], name) for name in task.pops]
        arrivals += [(self.done[n], n, task.cause(at)) for at, n in enumerate(task.after)]
        for time, sender, cause in sorted(arrivals):
            if time > unit.since:
                self.wait(unit, cause, sender, time)

    def work(self, unit: _Unit, task: Task, cycles: int, latency: int = 0) -> None:
        self.slice(unit.name, WORK, self.now, self.now + cycles, task.number)
        if latency:
            start = self.now + cycles
            self.slice(unit.name, LATENCY, start, start + latency, task.number)
        self.at(self.now + cycles + latency, lambda: self.finish(unit, task))

    def finish(self, unit: _Unit, task: Task) -> None:
        """Complete an instruction and send its tokens."""
        self.done[task.number] = self.now
        unit.current, unit.is_busy, unit.since = -1, False, self.now
        for name in task.pushes:
            queue = self.machine.queues[name]
            if len(self.tokens[name]) >= queue.depth:
                raise self.error(f"the queue {name} has no room for another token", task)
            self.tokens[name].append((task.number, self.now))
        if task.is_end:
            self.ended = self.now
        for name in task.pushes:
            self.wake(self.units[self.machine.queues[name].consumer])
        for other in self.units.values():
            if other.current >= 0 and self.tasks[other.current].after:
                self.wake(other)
        self.take(unit)

    def wake(self, unit: _Unit) -> None:
        if unit.current >= 0 and not unit.is_busy:
            self.start(unit)

    # The port.

    def ask(
        self, name: str, channel: str, cycles: int, granted: Callable[[int], None], task: int
    ) -> None:
        """Request a channel; arbitration takes place after all other events of the cycle."""
        self.count += 1
        time = 0 if self.machine.port.by_priority else self.now
        request = _Request((time, self.priority[name], self.count), cycles, granted, task)
        self.channels[channel].requests.append(request)
        self.at_end(self.channels[channel])

    def grant(self, channel: _Channel) -> None:
        """Grant a free channel to the first request, or to the most urgent one."""
        if not channel.is_free or not channel.requests:
            return
        request = min(channel.requests, key=lambda each: each.order)
        channel.requests.remove(request)
        channel.is_free = False
        end = self.now + request.cycles
        self.slice(channel.name, WORK, self.now, end, request.task)
        self.at(end, lambda: self.release(channel))
        request.granted(self.now)

    def release(self, channel: _Channel) -> None:
        channel.is_free = True
        self.at_end(channel)

    # Recording.

    def slice(
        self, track: str, cause: str, start: int, end: int, task: int, awaited: int = -1
    ) -> None:
        if end <= start:
            return
        timeline = self.timeline
        timeline.slices.append(Slice(track, cause, start, end, task, awaited))
        if cause == WORK:
            timeline.busy[track] += end - start
            if task >= 0 and self.tasks[task].bytes:
                timeline.bytes[track] += self.tasks[task].bytes
        else:
            timeline.stalls[track][cause] += end - start

    def wait(self, unit: _Unit, cause: str, awaited: int, until: int | None = None) -> None:
        """Record that a unit has waited since it finished its previous work."""
        end = self.now if until is None else until
        self.slice(unit.name, cause, unit.since, end, unit.current, awaited)
        unit.since = max(unit.since, end)

    def stuck(self) -> VerificationError:
        for unit in self.units.values():
            if unit.current >= 0:
                task = self.tasks[unit.current]
                missing = [name for name in task.pops if not self.tokens[name]]
                missing += [f"task {n}" for n in task.after if n not in self.done]
                return self.error(
                    f"the {unit.name} unit waits forever for {' and '.join(missing)}", task
                )
        raise AssertionError("all units are idle")

    def error(self, message: str, task: Task) -> VerificationError:
        return VerificationError(f"{message}: {task.text}", where=f"task {task.number}")
