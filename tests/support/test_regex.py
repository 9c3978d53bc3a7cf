"""Regular expressions: against Python's own, whose syntax is RE2's for what is made here."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcopt.support.regex import Matcher, PatternError

_ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "[a-c-]", r"\d", r"\W", r"\s", r"\.", r"\n", "x",
     r"\b", r"\B", "^", "$", "(?:)", "()", r"\x41", "é", r"[\d_]", r"[^\w]"]
)  # fmt: skip
_REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?", "+?"])


def _with_repeat(pair: tuple[str, str]) -> str:
    atom, repeat = pair
    return atom if atom in (r"\b", r"\B", "^", "$") else atom + repeat


_PATTERNS = st.recursive(
    st.tuples(_ATOMS, _REPEATS).map(_with_repeat),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map("|".join),
        inner.map("({})".format),
        inner.map("(?i:{})".format),
        inner.map("(?:{})*".format),
    ),
    max_leaves=8,
)
_TEXTS = st.text("abcA1_ é.\n", max_size=8)


@settings(max_examples=150, deadline=None)
@given(_PATTERNS, st.lists(_TEXTS, max_size=6))
def test_as_pythons_own(pattern, texts):
    # Python's $ also holds in front of a last line break.
    own = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    matcher = Matcher(pattern)
    for text in texts:
        # ASCII patterns of Python do not fold other letters.
        if "(?i" in pattern and not text.isascii():
            continue
        assert matcher.matches(text) == bool(own.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"\pL+", "aéЖ", True),
        (r"\p{Lu}\P{Lu}", "Ab", True),
        (r"[[:alpha:]][[:^digit:]]", "a-", True),
        (r"\Qa.b\E+", "a.bb", True),
        (r"\Qa.b", "axb", False),
        (r"(?s).", "\n", True),
        (r".", "\n", False),
        (r"(?i)straße", "STRAßE", True),
        (r"(?P<name>a)(?<other>b)", "ab", True),
        (r"\x{1F600}", "😀", True),
        (r"(?m)a$\n^b", "a\nb", True),
        (r"a$\nb", "a\nb", False),
        (r"\Aa\z", "a", True),
        (r"[]a]+", "]a", True),
        (r"a{,2}", "a{,2}", True),
        (r"\101", "A", True),
        ("", "", True),
        ("|a", "a", True),
    ],
)
def test_what_python_has_not(pattern, text, matches):
    assert Matcher(pattern).matches(text) is matches


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "*", "a**", "a{2}{3}", "[b", "[b-a]", r"\1", "(?=a)", "(?<!a)b", "a{1001}", "(?<n",
     "(a{999}){999}", "(" * 300, "\\", r"\p{Greek}", r"\x{110000}", "(?q)a", "[[:none:]]"],
)  # fmt: skip
def test_what_is_refused(pattern):
    with pytest.raises(PatternError):
        Matcher(pattern)


def test_no_text_makes_it_slow():
    start = time.perf_counter()
    assert not Matcher("(a*)*b|(a|aa)+$x").matches("a" * 5000)
    assert not Matcher("(?:a?){30}a{30}").matches("a" * 29)
    assert time.perf_counter() - start < 5
