"""Regular expressions of RegexFullMatch: RE2's syntax, linear time, pattern errors."""

from __future__ import annotations

import pytest

from tcopt.support.errors import ResourceError
from tcopt.support.host.host_functions.matching import matcher_of
from tcopt.support.host.patterns import PatternError


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"\pL+", "aéЖ", True),
        (r"\p{Greek}+", "αβ", True),
        (r"[[:alpha:]][[:^digit:]]", "a-", True),
        (r"\Qa.b", "axb", False),
        (r".", "\n", False),
        (r"(?i)straße", "STRAßE", True),
        (r"(?P<name>a)(?<other>b)", "ab", True),
        (r"\x{1F600}", "😀", True),
        (r"(?m)a$\n^b", "a\nb", True),
        (r"a|ab", "ab", True),
        (r"a", "ab", False),
        (r"a$", "a\n", False),
        ("", "", True),
        ("((((){10}){10}){10})*", "", True),
    ],
)
def test_all_of_a_string_has_to_match(pattern: str, text: str, matches: bool):
    assert matcher_of(pattern)(text) is matches


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "*", "a**", "[b", "[b-a]", r"\1", "(?=a)", "(?<!a)b", "a{1001}", "(?<n",
     "(a{999}){999}", "(" * 5000, "\\", r"\p{Nowhere}", "(?q)a", "[[:none:]]", "\ud800",
     "((((){1000}){1000}){1000}){1000}", "a" * 70_000, r"\pL{1000}" * 20],
)  # fmt: skip
def test_malformed_and_large_patterns_are_refused(pattern: str):
    with pytest.raises(PatternError):
        matcher_of(pattern)


def test_no_string_makes_a_pattern_slow():
    # Exponential in a backtracking matcher.
    assert not matcher_of("(a*)*b|(a|aa)+$x")("a" * 5000)
    assert not matcher_of("(?:a?){30}a{30}")("a" * 29)


def test_a_match_of_too_many_steps_is_refused():
    with pytest.raises(ResourceError):
        matcher_of("(?:a?b?c?){900}")("a" * (1 << 21))
