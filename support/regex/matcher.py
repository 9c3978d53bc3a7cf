"""Whether all of a text matches a pattern, in time linear in its length."""

from __future__ import annotations

from tcopt.support.regex.parser import Step, compile_pattern

_MOST_KEPT = 4096
"""Sets of states and characters whose next set is remembered."""


class Matcher:
    """One pattern.

    Raises:
        PatternError: it is malformed, or has what is not supported.
    """

    def __init__(self, pattern: str):
        self._program = compile_pattern(pattern)
        self._last = len(self._program) - 1
        self._asserts = any(step.asserts for step in self._program)
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        states = self._closure({0}, text, 0)
        for place, character in enumerate(text):
            if not states:
                return False
            states = self._next(states, character, text, place + 1)
        return self._last in states

    def _next(
        self, states: frozenset[int], character: str, text: str, place: int
    ) -> frozenset[int]:
        if self._asserts:
            return self._closure(self._moved(states, character), text, place)
        key = states, character
        found = self._known.get(key)
        if found is None:
            found = self._closure(self._moved(states, character), text, place)
            if len(self._known) < _MOST_KEPT:
                self._known[key] = found
        return found

    def _moved(self, states: frozenset[int], character: str) -> set[int]:
        """The states behind those that take a character."""
        steps = (self._program[state] for state in states)
        return {s.targets[0] for s in steps if s.takes is not None and character in s.takes}

    def _closure(self, states: set[int], text: str, place: int) -> frozenset[int]:
        """States, and those that are reached from them without a character."""
        found, pending = set(states), list(states)
        while pending:
            step = self._program[pending.pop()]
            if step.takes is not None or (step.asserts and not _holds(step, text, place)):
                continue
            new = [target for target in step.targets if target not in found]
            found.update(new)
            pending += new
        return frozenset(found)


def _holds(step: Step, text: str, place: int) -> bool:
    """Whether what a step asserts is so at a place of a text."""
    match step.asserts:
        case "text_start":
            return place == 0
        case "text_end":
            return place == len(text)
        case "line_start":
            return place == 0 or text[place - 1] == "\n"
        case "line_end":
            return place == len(text) or text[place] == "\n"
        case edge:
            before = place > 0 and _is_word(text[place - 1])
            after = place < len(text) and _is_word(text[place])
            return (before != after) == (edge == "word_edge")


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
