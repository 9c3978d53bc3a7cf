"""Kernels of plugins are cached and compiled by workers as far as their source determines them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import tcopt
from machines.plugin_files import CUBE, GATE, PASS, RULE, SCALED, X, folder, model, plugin
from tcopt.compiler import kernel_builder
from tcopt.compiler.kernel import Kernel
from tcopt.compiler.program_cache import wait_for_writers
from tcopt.compiler.units import CompileUnit, compile_unit
from tcopt.compiler.workers import Workers, compile_in
from tcopt.support.pipelines.phases import Phase
from tcopt.support.registries.plugin_sources import file_source
from tcopt.support.registries.plugins import (
    load_plugins,
    loaded_sources,
    plugins_loaded,
    sent_plugins,
    take_plugins,
    unload,
)
from tcopt.support.registries.registration import extensions, is_extended

__all__ = ["folder"]


def cached_run(path: Path | None, **options: object) -> tuple[bool, np.ndarray]:
    plugins = [] if path is None else [path]
    compiled = tcopt.compile(model("Exp"), plugins=plugins, **options)  # pyright: ignore
    wait_for_writers()
    return compiled.program.cached, compiled.run({"x": X})[0]  # pyright: ignore


def test_what_a_plugin_made_is_found_again() -> None:
    """Entries are found while the source is the same; those of others are not used."""
    exp, shifted = -np.exp(X), -(X + 1)
    first = plugin(SCALED.format(number=1.0))
    for expected in (False, True):
        cached, result = cached_run(first)
        assert cached == expected
        np.testing.assert_allclose(result, shifted, rtol=1e-6)
    unload(first)
    cached, result = cached_run(None)
    assert not cached
    np.testing.assert_allclose(result, exp, rtol=1e-5)
    cached, result = cached_run(plugin(SCALED.format(number=2.0)))
    assert not cached
    np.testing.assert_allclose(result, -(X + 2), rtol=1e-6)
    for again, expected in ((SCALED.format(number=1.0), shifted), (RULE, exp)):
        _, result = cached_run(plugin(again))
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    # Kernels of an unknown program are found by the plugin's source as well.
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setenv("TCOPT_CACHE", "kernels")
        compiled = tcopt.compile(model("Exp"), plugins=[plugin(SCALED.format(number=1.0))])
        assert compiled.program.kernels_compiled == 0  # pyright: ignore
        np.testing.assert_allclose(compiled.run({"x": X})[0], shifted, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import os\n", "imports os"),
        ("import helper_of_a_test\n", "imports helper_of_a_test"),
        ("from . import other\n", "imports a module next to it"),
        ("FACTOR = float(open('factor').read())\n", "uses open"),
        ("import numpy as np\nTABLE = np.load('table.npy')\n", "uses np.load"),
        ("from numpy.random import default_rng\n", "imports numpy.random"),
        ("def f(n): return __import__(n)\n", "uses __import__"),
        ("from tcopt.support import files\nx = files.open_file\n", "uses open_file"),
    ],
)
def test_sources_that_do_not_say_all(text: str, reason: str) -> None:
    told = file_source(plugin(text)).influence
    assert told is not None and reason in told


@pytest.mark.parametrize("text", [CUBE, GATE, RULE, PASS, SCALED])
def test_sources_that_say_all(text: str) -> None:
    assert file_source(plugin(text)).influence is None


def test_a_plugin_that_asks_its_surroundings_is_not_kept(folder: Path) -> None:
    text = SCALED.format(number="float(os.environ['SHIFT'])").replace("from", "import os\nfrom", 1)
    asking = plugin(text)
    for number in (1.0, 3.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SHIFT", str(number))
            cached, result = cached_run(asking)
        assert not cached and is_extended()
        np.testing.assert_allclose(result, -(X + number), rtol=1e-6)
    assert not (folder / "cache").exists()


def test_what_changes_after_loading_ends_the_cache() -> None:
    """A plugin registers more after it was loaded."""
    text = SCALED.format(number=1.0) + "\n\ndef later():\n"
    text += "    from xdsl.dialects import arith\n    expands(arith.NegfOp)(mine)\n"
    (module,) = load_plugins([plugin(text)])
    assert not is_extended()
    module.later()
    assert any("expansion" in told for told in extensions())


def test_workers_have_the_same_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    path = plugin(SCALED.format(number=1.0))
    taken: list[tuple[CompileUnit, Sequence[Phase]]] = []

    def take(unit: CompileUnit, phases: Sequence[Phase]) -> Kernel:
        taken.append((unit, phases))
        return compile_unit(unit, phases)

    with monkeypatch.context() as patch:
        patch.setattr(kernel_builder, "compile_unit", take)
        compiled = tcopt.compile(model("Exp"), cache=False, workers=0, plugins=[path])
    ((unit, phases),) = taken
    with Workers(1) as workers:
        (process,) = workers.processes
        code = compile_in(process, unit, phases).code
        assert code in compiled.program.objects  # pyright: ignore
        unload(path)
        assert compile_in(process, unit, phases).code != code
        load_plugins([path])
        assert compile_in(process, unit, phases).code == code
    plain = file_source(path)
    assert loaded_sources() == [plain]
    sent = sent_plugins()
    unload(path)
    assert not loaded_sources()
    take_plugins(sent)
    assert loaded_sources() == [plain] and not is_extended()
    take_plugins([])
    assert not loaded_sources()


def test_modules_next_to_a_file_belong_to_it(folder: Path) -> None:
    """A change of a module that only a function imports is seen, in other processes as well."""
    text = SCALED.format(number="number()").replace(
        "@expands",
        "def number():\n    from table_of_a_test import NUMBER\n    return NUMBER\n\n\n@expands",
    )
    path, results = plugin(text), []
    for number, known in ((1.0, False), (2.0, False), (1.0, True)):
        plugin(f"NUMBER = {number}", "table_of_a_test")
        cached, result = cached_run(path)
        assert cached == known and not is_extended()
        results.append(result)
        np.testing.assert_allclose(result, -(X + number), rtol=1e-6)
    assert "table_of_a_test" in sys.modules and str(folder) not in sys.path
    (source,) = loaded_sources()
    (folder / "table_of_a_test.py").unlink()
    unload(path)
    assert "table_of_a_test" not in sys.modules
    take_plugins([source.facts()])
    np.testing.assert_array_equal(cached_run(None)[1], results[2])
    take_plugins([])


def test_a_module_of_another_folder_is_not_that_of_the_plugin(folder: Path) -> None:
    text = SCALED.format(number="NUMBER").replace(
        "from", "from math_of_a_test import NUMBER\nfrom", 1
    )
    for name, number in (("one", 1.0), ("two", 2.0)):
        (folder / name).mkdir()
        (folder / name / "math_of_a_test.py").write_text(f"NUMBER = {number}")
        (folder / name / "plugin.py").write_text(
            text.replace("ExpOp", f"{'Exp' if name == 'one' else 'Log'}Op")
        )
    with plugins_loaded([folder / "one" / "plugin.py", folder / "two" / "plugin.py"]):
        first, second = loaded_sources(all_=True)
        assert first.influence is None and "was not imported from" in (second.influence or "")
        assert is_extended()


def test_threads_that_load_the_same_plugin_load_it_once() -> None:
    path, modules = plugin(SCALED.format(number=1.0)), list[object]()
    threads = [Thread(target=lambda: modules.extend(load_plugins([path]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(modules) == 4 and len(set(map(id, modules))) == 1 and not is_extended()
