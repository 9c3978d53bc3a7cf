"""Reachability queries for many nodes of one acyclic graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)


class Reaches(Generic[Node]):
    """Reachability of goals in an acyclic graph; all queries together take linear time.

    Answers are memoised, so each node is expanded once in the lifetime of an instance. A pass may
    rewrite the graph meanwhile, as long as rewrites change no answer.

    Args:
        expand: returns the successors of a node, or None for a goal.
    """

    def __init__(self, expand: Callable[[Node], Iterable[Node] | None]):
        self._expand = expand
        self._known: dict[Node, bool] = {}

    def __call__(self, start: Node) -> bool:
        """Return whether a node is a goal or reaches one."""
        known = self._known
        path: list[Node] = []
        rest: list[Iterator[Node]] = [iter((start,))]
        while rest:
            for node in rest[-1]:
                answer = known.get(node)
                if answer is None:
                    successors = self._expand(node)
                    if successors is not None:
                        path.append(node)
                        rest.append(iter(successors))
                        break
                    answer = known[node] = True
                if answer:
                    known.update(dict.fromkeys(path, True))
                    return True
            else:
                rest.pop()
                if path:
                    known[path.pop()] = False
        return False
