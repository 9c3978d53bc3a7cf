"""Regular expressions that no text makes slow: RE2's syntax, matched by sets of states."""

from tcopt.support.regex.matcher import Matcher
from tcopt.support.regex.parser import PatternError

__all__ = ["Matcher", "PatternError"]
