"""The origin of a registered definition: the package, a plugin, or other code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial, wraps
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from xdsl.dialects import math

import tcopt
from tcopt.backends.llvm.emit import registry as llvm_rules
from tcopt.backends.opencl.emit import registry as opencl_rules
from tcopt.backends.ptx import registry as ptx_rules
from tcopt.dialects.intrinsics import INTRINSICS, register
from tcopt.dialects.loop.scopes import SCOPES, Scope, Sharing, register_scope
from tcopt.frontends.onnx.context.registry import HANDLERS
from tcopt.frontends.onnx.nodes.sequences import SEQUENCE_HANDLERS
from tcopt.passes.kernel.math.polynomials.builder import EXPANSIONS, WIDE_EXPANSIONS
from tcopt.schedules.rules.rule import FACTS, RULES, rules_for, schedule_rule
from tcopt.support.errors import InputError
from tcopt.support.host.host_functions.registry import HOST_FUNCTIONS
from tcopt.support.registries.registration import (
    Registry,
    add_to_keys,
    extensions,
    forget,
    is_extended,
    registering,
)
from tcopt.support.registries.registry import DIALECTS, PASSES

OWN = """
from tests_registry import TABLE

def own():
    return 1

def register(name, value):
    TABLE[name] = value

register("function", own)
register("lambda", lambda: 2)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of the package that registers definitions in a table of its own."""
    (tmp_path / "module_of_a_test.py").write_text(OWN)
    (tmp_path / "tests_registry.py").write_text(
        "from tcopt.support.registries.registration import Registry\nTABLE = Registry('thing')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(tcopt, "__path__", [*tcopt.__path__, str(tmp_path)])
    # Whatever is loading the package's module.
    with registering("plugin"):
        yield import_module("tcopt.module_of_a_test")
    for name in ("tests_registry", "tcopt.module_of_a_test"):
        del sys.modules[name]


def test_the_package_registers_while_it_is_imported(module: Any) -> None:
    table: Registry[str, Any] = module.TABLE
    assert list(table) == ["function", "lambda"]
    assert not any(map(table.is_foreign, table)) and not is_extended()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda own: own,
        partial,
        cache,
        lambda own: wraps(own)(lambda: own()),
        lambda own: type("Rule", (), {"apply": own}),
        lambda own: 3,
    ],
    ids=["function", "partial", "cached", "wrapper", "class", "data"],
)
def test_other_code_registers_what_the_package_has(module: Any, wrap: Callable[..., Any]) -> None:
    """Functions of the package do not make an entry the package's own, nor does its table."""
    table: Registry[str, Any] = module.TABLE
    value = wrap(module.own)
    for key in ("function", "another"):
        module.register(key, value)
        assert table.is_foreign(key) and table[key] is value
        assert [text.startswith(f"thing '{key}'") for text in extensions()] == [True]
        del table[key]
    assert table["function"] is module.own and not is_extended()


def test_entries_of_plugins_are_those_that_are_registered_while_they_load() -> None:
    table: Registry[str, Any] = Registry("thing")
    with registering("plugin"):
        table["first"] = len
        other = Thread(target=table.add, args=("second", len))
        other.start()
        other.join()
    table["third"] = len
    assert len(list(extensions())) == 3
    add_to_keys("plugin", "digest")
    assert [text.split()[1] for text in extensions()] == ["'second'", "'third'"]
    forget("plugin", {len.__module__})
    assert not is_extended() and set(table) <= {"second", "third"}
    assert not table


def test_code_without_a_file_is_named_by_its_module() -> None:
    table: Registry[str, Any] = Registry("thing")
    exec("def cell(): pass\ntable['cell'] = cell", {"__name__": "notebook", "table": table})
    assert list(table.extensions()) == ["thing 'cell' (notebook)"]
    exec("table['cell'] = lambda: 1", {"table": table})
    assert list(table.extensions()) == ["thing 'cell'"]
    table.clear()


def test_changed_objects_of_the_package_are_extensions() -> None:
    rule = rules_for("cpu")[0]
    twice = replace(INTRINSICS["bf16_dot"], name="dot_of_a_test")
    made: list[tuple[Registry[Any, Any], Any, Callable[[], object]]] = [
        (RULES, ("cpu", rule.name), lambda: schedule_rule(target="cpu", priority=1)(type(rule))),
        (INTRINSICS, twice.name, lambda: register(twice)),
        (EXPANSIONS, math.ExpOp, lambda: EXPANSIONS.update({math.ExpOp: EXPANSIONS[math.TanhOp]})),
        (SCOPES, "test", lambda: register_scope(Scope("test", Sharing.ALL))),
    ]
    for table, key, make in made:
        make()
        assert is_extended()
        del table[key]
        assert not is_extended()


def test_the_package_s_own_entries_are_not_foreign():
    assert rules_for("cpu")
    tables = (RULES, FACTS, INTRINSICS, HANDLERS, SEQUENCE_HANDLERS, EXPANSIONS, WIDE_EXPANSIONS)
    others = (PASSES, DIALECTS, SCOPES, HOST_FUNCTIONS)
    rules = (llvm_rules.rules, opencl_rules.rules, ptx_rules.rules)
    for registry in (*tables, *others, *rules):
        assert len(registry) and not list(registry.extensions())


def test_what_wraps_an_own_function_is_foreign():
    own = EXPANSIONS[math.ExpOp]
    table: Registry[str, Any] = Registry("thing", lambda: {"exp": own})
    assert table["exp"] is own and not list(table.extensions())

    @wraps(own)
    def mine(*arguments: Any) -> Any:
        return own(*arguments)

    table["exp"] = mine
    assert table["exp"] is mine and table.is_foreign("exp")
    (told,) = table.extensions()
    assert told == f"thing 'exp' ({__file__})"
    del table["exp"]
    assert table["exp"] is own and not list(table.extensions())


def test_entries_from_outside_win_in_either_order_and_are_no_two():
    found: dict[str, Any] = {"a": len}
    table: Registry[str, Any] = Registry("thing", lambda: found)
    table.add("a", sum)
    assert table["a"] is sum
    with pytest.raises(InputError, match="two definitions of thing 'a'"):
        table.add("a", max)
    with table.override("a", max), table.override("b", min):
        assert table["a"] is max and list(table) == ["a", "b"]
    assert table["a"] is sum and list(table) == ["a"]
