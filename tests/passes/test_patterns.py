"""Passes are rewrite patterns, or document why not."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.passes import ModulePass

import tcopt
from tcopt.definitions import own_passes
from tcopt.support.ir import rewriting
from tcopt.tools.passes.pass_help import documentation, patterns_of, reason_for_walk

ROOT = Path(tcopt.__file__).parent
PASSES = {name: factory() for name, factory in own_passes().items()}
EDITS = {"insert_op_before", "insert_ops_before", "insert_op_after", "insert_ops_after", "add_op"}
HELPERS = ("insert", "replace", "erase", "detach", "move")


@pytest.mark.parametrize("name", sorted(PASSES))
def test_passes_are_patterns_or_say_why_not(name: str) -> None:
    cls = PASSES[name]
    uses_driver = getattr(sys.modules[cls.__module__], "rewrite", None) is rewriting.rewrite
    patterns, reason = patterns_of(cls), reason_for_walk(cls)
    assert (uses_driver and patterns) or reason, (
        f"the file of {name} has neither patterns that `rewrite` runs nor a sentence "
        '"A walk by hand: ..."'
    )


@pytest.mark.parametrize("name", sorted(PASSES))
def test_patterns_show_before_and_after(name: str) -> None:
    module = sys.modules[PASSES[name].__module__]
    for pattern in patterns_of(PASSES[name]):
        text = documentation(getattr(module, pattern))
        assert "->" in text, f"{pattern} shows no before -> after"


@pytest.mark.parametrize("name", sorted(PASSES))
def test_pass_classes_are_named_as_their_passes(name: str) -> None:
    words = "".join(word.capitalize() for word in name.split("-"))
    assert PASSES[name].__name__ == f"{words}Pass"
    assert issubclass(PASSES[name], ModulePass)
    assert inspect.isabstract(PASSES[name]) is False


def _private_helpers(tree: ast.Module) -> Iterator[str]:
    """Yield private functions that only forward to the shared edits."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or len(node.body) > 4:
            continue
        if not node.name.startswith(tuple(f"_{word}" for word in HELPERS)):
            continue
        called = {
            each.func.attr
            for each in ast.walk(node)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
        }
        if called & EDITS:
            yield node.name


def test_passes_have_no_edit_helpers_of_their_own() -> None:
    """`support/ir/rewriting.py` has the functions that insert and erase ops."""
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("passes", "schedules/passes")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in _private_helpers(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not found
