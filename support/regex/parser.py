"""RE2's syntax as a program of a machine that is in several states at once (Thompson, 1968)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from tcopt.support.errors import InputError
from tcopt.support.regex.classes import (
    ANY,
    ANY_BUT_BREAK,
    CATEGORIES,
    PERL,
    POSIX,
    CharacterSet,
    category,
    complement,
    ranges_of,
)

_MOST_STEPS = 10_000
"""Of a program: repetitions of repetitions are written out."""
_MOST_DEPTH = 200
_MOST_REPEATS = 1000
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_ASSERTIONS = {"A": "text_start", "z": "text_end", "b": "word_edge", "B": "no_word_edge"}
_REPEAT = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}", re.A)
_REPEATED_AGAIN = re.compile(r"[*+?]|\{\d{1,4}(,\d{0,4})?\}", re.A)
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)|\\.", re.S)
_NAME = re.compile(r"\w+", re.A)


class PatternError(InputError):
    """A pattern is none, or has what is not supported."""


@dataclass(frozen=True)
class Step:
    """A step of the program: takes a character of a set, asserts something of the place, or goes
    on at others; it matches if it does nothing of that and goes nowhere."""

    takes: CharacterSet | None = None
    asserts: str = ""
    targets: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Flags:
    folds: bool = False
    breaks: bool = False
    lines: bool = False


Node = tuple[str, Any]
"""What a part of a pattern is, and its parts."""


def _unquoted(match: re.Match[str]) -> str:
    """What stands between \\Q and \\E, with each sign escaped."""
    text = match[1]
    if text is None:
        return match[0]
    return "".join(c if c.isalnum() or not c.isascii() else f"\\{c}" for c in text)


class Parser:
    """Reads one pattern.

    Raises:
        PatternError: it is malformed, too long, or has what RE2 has and this has not.
    """

    def __init__(self, pattern: str):
        self.pattern = _QUOTED.sub(_unquoted, pattern)
        self.place = 0
        self.depth = 0

    def parse(self) -> Node:
        """The pattern as a tree."""
        node, _ = self._alternatives(_Flags())
        if self.place < len(self.pattern):
            self._fail("unexpected )")
        return node

    def _fail(self, message: str) -> None:
        raise PatternError(
            f"the pattern {self.pattern[:60]!a} is malformed at character {self.place}: {message}",
            hint="patterns are written as RE2 has them",
        )

    def _peek(self, count: int = 1) -> str:
        return self.pattern[self.place : self.place + count]

    def _take(self, text: str) -> bool:
        found = self.pattern.startswith(text, self.place)
        self.place += len(text) if found else 0
        return found

    def _alternatives(self, flags: _Flags) -> tuple[Node, _Flags]:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            self._fail("groups are nested too deeply")
        branches: list[Node] = []
        items: list[Node] = []
        while self.place < len(self.pattern) and self._peek() != ")":
            if self._take("|"):
                branches.append(("sequence", items))
                items = []
                continue
            node, flags = self._atom(flags)
            if node is not None:
                items.append(self._repeated(node))
        self.depth -= 1
        branches.append(("sequence", items))
        return ("either", branches), flags

    def _repeated(self, node: Node) -> Node:
        """A part with what says how often it is there."""
        least, most = 1, 1
        bounds = _REPEAT.match(self.pattern, self.place)
        if self._peek() in ("*", "+", "?") and self._peek():
            sign = self._peek()
            self.place += 1
            least, most = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[sign]
        elif bounds is not None:
            self.place = bounds.end()
            least = int(bounds[1])
            most = least if bounds[2] is None else int(bounds[3]) if bounds[3] else -1
            if max(least, most) > _MOST_REPEATS or -1 < most < least:
                self._fail("a part cannot be there so often")
        else:
            return node
        # Which match comes first is no question where all of the text has to match.
        self._take("?")
        if _REPEATED_AGAIN.match(self.pattern, self.place):
            self._fail("what is repeated is repeated again")
        return ("repeat", (node, least, most))

    def _atom(self, flags: _Flags) -> tuple[Node | None, _Flags]:
        character = self._peek()
        if character == "(":
            return self._group(flags)
        if character == "[":
            return ("set", replace(self._class(flags), folds=flags.folds)), flags
        if character == "\\":
            return self._escape(flags), flags
        self.place += 1
        if character in ("*", "+", "?"):
            self._fail("there is nothing to repeat")
        if character == ".":
            return ("set", ANY if flags.breaks else ANY_BUT_BREAK), flags
        if character in ("^", "$"):
            side = "start" if character == "^" else "end"
            return ("assert", f"{'line' if flags.lines else 'text'}_{side}"), flags
        return self._literal(character, flags), flags

    def _literal(self, character: str, flags: _Flags) -> Node:
        return ("set", CharacterSet(((character, character),), folds=flags.folds))

    def _group(self, flags: _Flags) -> tuple[Node | None, _Flags]:
        self.place += 1
        inner = flags
        if self._take("?P<") or (self._peek(2) == "?<" and self._peek(3)[2:] not in ("=", "!")
                                 and self._take("?<")):  # fmt: skip
            name = _NAME.match(self.pattern, self.place)
            self.place = name.end() if name else self.place
            if name is None or not self._take(">"):
                self._fail("a group has no name")
        elif self._take("?"):
            inner = self._flags(flags)
            if self._take(")"):
                return None, inner
            if not self._take(":"):
                self._fail("such groups are not supported")
        node, _ = self._alternatives(inner)
        if not self._take(")"):
            self._fail("a group has no end")
        return node, flags

    def _flags(self, flags: _Flags) -> _Flags:
        value = True
        while self._peek() and self._peek() in "imsU-":
            letter = self._peek()
            self.place += 1
            names = {"i": "folds", "s": "breaks", "m": "lines"}
            if letter == "-":
                value = False
            elif letter in names:
                flags = replace(flags, **{names[letter]: value})
        return flags

    def _escape(self, flags: _Flags) -> Node:
        letter = self._peek(2)[1:]
        if letter in PERL or (letter.lower() in PERL and letter):
            self.place += 2
            return ("set", self._perl(letter))
        if letter in ("p", "P"):
            return ("set", self._category())
        if letter in _ASSERTIONS:
            self.place += 2
            return ("assert", _ASSERTIONS[letter])
        return self._literal(self._escaped(), flags)

    def _perl(self, letter: str) -> CharacterSet:
        found = CharacterSet(ranges_of(PERL[letter.lower()]))
        return found if letter.islower() else complement(found)

    def _category(self) -> CharacterSet:
        match = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))", re.A).match(self.pattern, self.place)
        name = "" if match is None else match[3] or match[4]
        if match is None or name not in CATEGORIES:
            self._fail("such classes of Unicode are not supported")
            raise AssertionError
        self.place = match.end()
        found = category(name)
        return complement(found) if (match[1] == "P") != bool(match[2]) else found

    def _escaped(self) -> str:
        """The one character that an escape stands for."""
        number = re.compile(r"\\(?:x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|([0-7]{3})|(0))")
        match = number.match(self.pattern, self.place)
        if match is not None:
            code = int(match[1] or match[2] or match[3] or "0", 16 if match[1] or match[2] else 8)
            self.place = match.end()
            if code > 0x10FFFF:
                self._fail("there is no such character")
            return chr(code)
        letter = self._peek(2)[1:]
        self.place += 2
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if not letter or (letter.isalnum() and letter.isascii()):
            self._fail("such escapes are not supported")
        return letter

    def _class(self, flags: _Flags) -> CharacterSet:
        """A set in brackets."""
        self.place += 1
        negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        inner: list[CharacterSet] = []
        first = True
        while first or self._peek() != "]":
            if self.place >= len(self.pattern):
                self._fail("a class has no end")
            first = False
            named = self._named_class()
            if named is not None:
                inner.append(named)
                continue
            low = high = self._member()
            if self._peek() == "-" and self._peek(2)[1:] not in ("]", ""):
                self.place += 1
                high = self._member()
            if low > high:
                self._fail("a range ends before it starts")
            ranges.append((low, high))
        self.place += 1
        tests = tuple(part.__contains__ for part in inner)
        return CharacterSet(tuple(ranges), tests, negated)

    def _named_class(self) -> CharacterSet | None:
        posix = re.compile(r"\[:(\^?)(\w+):\]", re.A).match(self.pattern, self.place)
        if posix is not None:
            if posix[2] not in POSIX:
                self._fail("there is no such class")
            self.place = posix.end()
            found = CharacterSet(ranges_of(POSIX[posix[2]]))
            return complement(found) if posix[1] else found
        letter = self._peek(2)[1:] if self._peek() == "\\" else ""
        if letter and letter.lower() in PERL:
            self.place += 2
            return self._perl(letter)
        return self._category() if letter in ("p", "P") and letter else None

    def _member(self) -> str:
        if self._peek() == "\\":
            return self._escaped()
        character = self._peek()
        self.place += 1
        return character


def compile_pattern(pattern: str) -> list[Step]:
    """The program of a pattern; it starts at its first step.

    Raises:
        PatternError: as `Parser`.
    """
    program: list[Step] = []
    _write(Parser(pattern).parse(), program)
    program.append(Step())
    return program


def _write(node: Node, program: list[Step]) -> None:
    """Append the steps of a part, which goes on at the step behind them."""
    if len(program) > _MOST_STEPS:
        raise PatternError("the pattern is too large", hint="let parts be there less often")
    kind, content = node
    here = len(program)
    match kind, content:
        case "set", _:
            program.append(Step(takes=content, targets=(here + 1,)))
        case "assert", _:
            program.append(Step(asserts=content, targets=(here + 1,)))
        case "sequence", _:
            for part in content:
                _write(part, program)
        case "either", _:
            _write_either(content, program)
        case _:
            part, least, most = content
            _write_repeat(part, least, most, program)


def _write_either(branches: list[Node], program: list[Step]) -> None:
    if len(branches) == 1:
        _write(branches[0], program)
        return
    fork = len(program)
    program.append(Step())
    starts: list[int] = []
    ends: list[int] = []
    for branch in branches:
        starts.append(len(program))
        _write(branch, program)
        ends.append(len(program))
        program.append(Step())
    program[fork] = Step(targets=tuple(starts))
    for end in ends:
        program[end] = Step(targets=(len(program),))


def _write_repeat(part: Node, least: int, most: int, program: list[Step]) -> None:
    for _ in range(least):
        _write(part, program)
    if most < 0:
        fork = len(program)
        program.append(Step())
        _write(part, program)
        program.append(Step(targets=(fork,)))
        program[fork] = Step(targets=(fork + 1, len(program)))
        return
    forks: list[int] = []
    for _ in range(most - least):
        forks.append(len(program))
        program.append(Step())
        _write(part, program)
    for fork in forks:
        program[fork] = Step(targets=(fork + 1, len(program)))
