"""Discovery: definitions are found from their files and loaded only on request."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tcopt
from tcopt.definitions import own_dialects, own_outputs, own_passes
from tcopt.support.registries.registry import all_dialects, all_passes
from tcopt.tools.universe import UNIVERSE


@pytest.mark.parametrize("name", own_passes())
def test_every_pass_loads(name: str) -> None:
    """A pass's file defines a documented class with its name."""
    cls = own_passes()[name]()
    assert cls.name == name
    assert cls.__name__ == "".join(word.capitalize() for word in name.split("-")) + "Pass"
    assert cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}(")


@pytest.mark.parametrize("name", own_dialects())
def test_every_dialect_loads(name: str) -> None:
    """A dialect has its module's name, and ops and attributes have docstrings."""
    dialect = own_dialects()[name]()
    assert dialect.name == name
    for definition in (*dialect.operations, *dialect.attributes):
        if definition.__module__.startswith("tcopt."):
            assert definition.__doc__, definition.name


@pytest.mark.parametrize("name", own_outputs())
def test_every_output_loads(name: str) -> None:
    assert own_outputs()[name]().name == name


def test_ours_replace_those_of_the_same_name() -> None:
    for name, factory in own_passes().items():
        assert all_passes()[name] is factory
    assert set(own_dialects()) <= set(all_dialects())


def test_universe_has_no_name_that_xdsl_defines() -> None:
    """Stock xdsl-opt rejects duplicate names, so it loads our dialects with its own."""
    from xdsl.universe import XDSL_UNIVERSE, Universe

    assert not UNIVERSE.all_dialects.keys() & XDSL_UNIVERSE.all_dialects.keys()
    assert not UNIVERSE.all_passes.keys() & XDSL_UNIVERSE.all_passes.keys()
    assert UNIVERSE.all_dialects.keys() <= Universe.get_multiverse().all_dialects.keys()


def test_start_up_imports_no_definition() -> None:
    """Listing must not import definitions, or every start of `tcopt` would be slow."""
    code = (
        "import sys; from tcopt.support.registries.registry import *; import tcopt.tools.tcopt;"
        "all_passes(), all_dialects(), all_targets();"
        "print([m for m in sys.modules if m.startswith(('tcopt.passes.', 'tcopt.dialects.'))"
        " or m in ('onnx', 'rich', 'llvmlite')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.nightly
def test_registries_are_filled_when_they_are_read() -> None:
    """In a new process, in which nothing has imported the modules with the definitions."""
    code = """
from tcopt.support.registries.target_registry import TARGETS
from tcopt.support.host.host_functions.registry import HOST_FUNCTIONS
assert {"cpu", "vdla"} <= set(TARGETS) and {"string_case", "accelerator_run"} <= set(HOST_FUNCTIONS)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_layers_import_by_name_only_what_is_in_them() -> None:
    """`lint-imports` does not see these imports."""
    root = Path(tcopt.__file__).parent
    named = re.compile(r'import_(?:module|all)[(,]\s*f?"tcopt\.(\w+)')
    for path in root.glob("*/**/*.py"):
        layer = path.relative_to(root).parts[0]
        found = set(named.findall(path.read_text(encoding="utf-8")))
        assert layer == "tools" or found <= {layer}, path
