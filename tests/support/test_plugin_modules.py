"""The modules of a plugin package, and that the running code matches their sources."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import tcopt
from tcopt.passes.kernel.math.polynomials.builder import EXPANSIONS
from tcopt.support.errors import InputError
from tcopt.support.registries.plugin_sources import PluginSource, module_source
from tcopt.support.registries.plugins import (
    load_plugins,
    loaded_sources,
    plugins_loaded,
    sent_plugins,
    take_plugins,
    unload,
)
from tcopt.support.registries.registration import is_extended
from tcopt.support.remarks import collect_remarks

PACKAGE = "package_of_a_test"
EXPANSION = """
from xdsl.dialects import math
from tcopt.passes.kernel.math.polynomials.builder import expands
from {origin} import {name}

@expands(math.{op})
def mine(b, x):
    return b.add(x, {name})
"""


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path for a package; removed completely at the end."""
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TCOPT_CACHE", "1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not is_extended()
    assert not any(name.startswith(PACKAGE) for name in sys.modules)
    assert not loaded_sources(all_=True)


def write(site: Path, **files: str) -> None:
    """Write modules of the package; two underscores separate folders."""
    for name, text in files.items():
        path = site / PACKAGE / f"{name.replace('__', '/') if name != 'init' else '__init__'}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def source(plugin: str) -> PluginSource:
    return module_source(Path.cwd(), f"{PACKAGE}.{plugin}")


def names(plugin: str) -> set[str]:
    return {name.removeprefix(f"{PACKAGE}.") for name in source(plugin).modules}


def test_what_a_module_imports_of_its_package_belongs_to_it(site: Path) -> None:
    """Modules imported in any form belong to the plugin, also inside functions; unrelated imports
    do not count, and no code is run."""
    write(
        site,
        init="raise AssertionError",
        plugin=f"from . import one\nfrom .low.two import value\nimport {PACKAGE}.three.four\n",
        one="def f():\n    from .late import value\n",
        low__two="from ..up import *\nfrom ... import beyond\n",
        three__four="import math, numpy.linalg\n",
        late="",
        up="",
        unused="import os",
    )
    (site / PACKAGE / "three" / "__init__.py").write_text("")
    expected = {PACKAGE, "late", "low.two", "one", "three", "three.four", "up"}
    assert names("plugin") == {"plugin", *expected}


def test_modules_that_are_no_python_text(site: Path) -> None:
    write(site, init="", plugin="from . import fast, missing")
    assert names("plugin") == {"plugin", PACKAGE}
    (site / PACKAGE / f"fast{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    assert "not Python source" in (source("plugin").influence or "")
    assert module_source(site, "there_is_no_such_package.plugin").influence
    with plugins_loaded(["sys"]):
        assert not loaded_sources() and loaded_sources(all_=True)[0].influence


def test_what_decides_beside_the_sources(site: Path) -> None:
    write(site, init="", plugin="from . import asks, other", asks="", other="import numpy\n")
    assert source("plugin").influence is None
    for text, reason in (("import os", "imports os"), ("from ... import far", "next to it")):
        write(site, asks=text)
        told = source("plugin").influence
        assert told is not None and reason in told and f"of {PACKAGE}/asks.py" in told


def exp_of(*plugins: str, operator: str = "Exp") -> tuple[bool, float]:
    """Return whether a model was a cache hit, and its result for 1."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
    net (float[4] x) => (float[4] y) {{ y = {operator}(x) }}""")
    compiled = tcopt.compile(model, plugins=plugins, workers=0)
    tcopt.compiler.program_cache.wait_for_writers()
    found = compiled.program.cached  # pyright: ignore
    return found, float(compiled.run({"x": np.ones(4, np.float32)})[0][0])


def test_a_change_beside_the_plugin_is_seen(site: Path) -> None:
    """A change is noticed immediately, even if only a digit changes in a file with the same
    timestamp, and for every plugin that shares the module."""
    plugin = EXPANSION.format(origin=f"{PACKAGE}.table", name="NUMBER", op="ExpOp")
    beside = EXPANSION.format(origin=".table", name="NUMBER", op="LogOp")
    write(site, init="", plugin=plugin, beside=beside, table="NUMBER = 1.0")
    both = (f"{PACKAGE}.plugin", f"{PACKAGE}.beside")
    try:
        assert exp_of(*both) == (False, 2.0)
        assert exp_of(*both) == (True, 2.0)
        write(site, table="NUMBER = 3.0")
        assert exp_of(both[0]) == (False, 4.0)
        assert exp_of(operator="Log") == (False, 4.0)
        unload(both[1])
        assert not is_extended()
        assert exp_of(operator="Log") == (False, 0.0)
        write(site, table="NUMBER = 1.0")
        assert exp_of(*both) == (True, 2.0)
    finally:
        for name in both:
            unload(name)


def test_workers_have_the_same_modules(site: Path) -> None:
    """Workers use the modules of this process, whatever is on their disk."""
    plugin = EXPANSION.format(origin=".table", name="NUMBER", op="ExpOp")
    write(site, init="", plugin=plugin, table="NUMBER = 1.0")
    with plugins_loaded([f"{PACKAGE}.plugin"]):
        sent = json.dumps(sent_plugins())
    (site / PACKAGE).rename(site / "elsewhere")
    take_plugins(json.loads(sent))
    assert not is_extended() and json.dumps(sent_plugins()) == sent
    assert any(EXPANSIONS.is_foreign(op) for op in EXPANSIONS)
    take_plugins([])
    assert not any(EXPANSIONS.is_foreign(op) for op in EXPANSIONS)


def test_what_was_imported_before_is_not_told(site: Path) -> None:
    """The file may have had another text when it was loaded."""
    plugin = EXPANSION.format(origin=".table", name="NUMBER", op="ExpOp")
    write(site, init="", plugin=plugin, table="NUMBER = 1.0")
    __import__(f"{PACKAGE}.table")
    try:
        with collect_remarks() as remarks:
            load_plugins([f"{PACKAGE}.plugin"])
        assert any("imported before" in remark.message for remark in remarks)
        assert is_extended()
        assert exp_of() == (False, 2.0)
        assert not (site / "cache").exists()
    finally:
        unload(f"{PACKAGE}.plugin")
        for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
            del sys.modules[name]


def test_a_module_that_asks_its_surroundings_is_not_told(site: Path) -> None:
    plugin = EXPANSION.format(origin=".table", name="NUMBER", op="ExpOp")
    write(site, init="", plugin=plugin, table="import os\nNUMBER = float(len(os.sep))")
    with plugins_loaded([f"{PACKAGE}.plugin"]):
        assert is_extended()
        assert exp_of() == (False, 2.0)
        assert exp_of() == (False, 2.0)


def test_an_entry_point_may_be_a_function(site: Path) -> None:
    text = EXPANSION.format(origin=".table", name="NUMBER", op="ExpOp")
    body = "\n".join(f"    {line}" for line in text.splitlines())
    write(site, init="", plugin=f"def register():\n{body}\n", table="NUMBER = 1.0")
    facts = site / "mine-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    entry = f"[tcopt.plugins]\nfunction-of-a-test = {PACKAGE}.plugin:register\n"
    (facts / "entry_points.txt").write_text(entry)
    with plugins_loaded(["function-of-a-test"]):
        assert exp_of() == (False, 2.0)
        assert exp_of() == (True, 2.0)
    with plugins_loaded([f"{PACKAGE}.plugin"]):
        assert exp_of()[1] == pytest.approx(np.e, rel=1e-5)


@pytest.mark.parametrize("text", ["1 / 0", "def f(:"])
def test_modules_that_fail_leave_nothing(site: Path, text: str) -> None:
    plugin = EXPANSION.format(origin=".table", name="NUMBER", op="ExpOp")
    write(site, init="", plugin=f"{plugin}\nfrom . import broken\n", table="NUMBER = 1.0")
    write(site, broken=f"x = 1\n{text}\n")
    with pytest.raises(InputError, match=r"broken\.py, line 2: "):
        load_plugins([f"{PACKAGE}.plugin"])
    write(site, broken="x = 1\n")
    with plugins_loaded([f"{PACKAGE}.plugin"]):
        assert exp_of()[1] == 2.0
