"""Minimum cuts of small networks, by Dinic's algorithm."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

UNLIMITED = 1 << 60
"""Capacity of an edge that must not be cut."""


class FlowNetwork:
    """Flow network with integer capacities between a source and a sink."""

    def __init__(self) -> None:
        self.places: dict[Hashable, int] = {}
        self.edges: list[list[int]] = []
        """Indices of the edges that leave each node; edge n ^ 1 is the reverse of edge n."""
        self.ends: list[int] = []
        self.capacities: list[int] = []
        self.source = self.node("source")
        self.sink = self.node("sink")

    def node(self, name: Hashable) -> int:
        """Return the node with a name, adding it if necessary."""
        if name not in self.places:
            self.places[name] = len(self.edges)
            self.edges.append([])
        return self.places[name]

    def connect(self, start: int, end: int, capacity: int) -> None:
        """Add a directed edge."""
        if start == end or capacity <= 0:
            return
        for here, there, limit in ((start, end, capacity), (end, start, 0)):
            self.edges[here].append(len(self.ends))
            self.ends.append(there)
            self.capacities.append(limit)

    def sink_side(self) -> set[int]:
        """Return the nodes on the sink's side of a minimum cut; of several, the smallest set."""
        while True:
            levels = self._levels()
            if levels[self.sink] < 0:
                break
            nexts = [0] * len(self.edges)
            while self._augment(levels, nexts):
                pass
        found, pending = {self.sink}, [self.sink]
        while pending:
            for edge in self.edges[pending.pop()]:
                if self.capacities[edge ^ 1] and self.ends[edge] not in found:
                    found.add(self.ends[edge])
                    pending.append(self.ends[edge])
        return found

    def _levels(self) -> list[int]:
        """Return the distance of each node from the source in the residual network; -1 if none."""
        levels = [-1] * len(self.edges)
        levels[self.source] = 0
        pending = deque([self.source])
        while pending:
            node = pending.popleft()
            for edge in self.edges[node]:
                if self.capacities[edge] and levels[self.ends[edge]] < 0:
                    levels[self.ends[edge]] = levels[node] + 1
                    pending.append(self.ends[edge])
        return levels

    def _augment(self, levels: list[int], nexts: list[int]) -> bool:
        """Augment along one shortest path; return whether there was one."""
        path: list[int] = []
        node = self.source
        while node != self.sink:
            if nexts[node] < len(self.edges[node]):
                edge = self.edges[node][nexts[node]]
                if self.capacities[edge] and levels[self.ends[edge]] == levels[node] + 1:
                    path.append(edge)
                    node = self.ends[edge]
                else:
                    nexts[node] += 1
            elif path:
                node = self.ends[path.pop() ^ 1]
                nexts[node] += 1
            else:
                return False
        amount = min(self.capacities[edge] for edge in path)
        for edge in path:
            self.capacities[edge] -= amount
            self.capacities[edge ^ 1] += amount
        return True
