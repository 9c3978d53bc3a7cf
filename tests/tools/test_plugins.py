"""Plugins outside the tree, one of each kind, with the cache on: no stale entries or leftovers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import tcopt
from machines.plugin_files import CUBE, GATE, LOOP, PASS, RULE, X, folder, model, plugin, run
from tcopt.backends.llvm.jit import compile_module
from tcopt.interpreters.scalars import evaluate_scalar
from tcopt.support.errors import InputError, TcoptError, UnsupportedError
from tcopt.support.pipelines.running import new_context
from tcopt.support.registries.plugins import (
    load_plugins,
    plugins_loaded,
)
from tcopt.support.registries.registration import is_extended
from tcopt.support.syntax.parsing import TextParser
from tcopt.tools import tcopt as driver
from tcopt.tools import tcopt_compile
from tcopt.tools.execution.loop_executor import run_func

__all__ = ["folder"]


def test_ops_and_attributes_are_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.mlir").write_text(
        """
func.func @f(%x: f32) -> f32 {
  %y = demo.cube %x {tag = #demo.tag<3>} : f32 -> f32
  func.return %y : f32
}""".replace("<3>", "<#builtin.int<3>>")
    )
    loaded = ["--load", str(plugin(CUBE)), "in.mlir"]
    assert driver.main(["in.mlir"]) == 1
    capsys.readouterr()
    for form in ([], ["--print-op-generic"]):
        assert driver.main([*loaded, *form]) == 0
        text = capsys.readouterr().out
        Path("in.mlir").write_text(text)
        assert driver.main([*loaded, *form]) == 0
        assert capsys.readouterr().out == text
        assert "demo.cube" in text and "demo.tag" in text
    assert driver.main([*loaded, "-t", "llvm"]) == 0
    assert capsys.readouterr().out.count("fmul float") == 2


def test_meanings_are_asked_by_interpreters() -> None:
    load_plugins([plugin(CUBE)])
    module = TextParser(new_context(), LOOP).parse_module()
    (function,) = module.ops
    assert function.name == "loop.func"
    y = np.zeros(4, np.float32)
    run_func(function, [X, y])  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(y, X * X * X)
    (cube,) = (op for op in module.walk() if op.name == "demo.cube")
    np.testing.assert_array_equal(evaluate_scalar(cube, [X]), X * X * X)
    driven = Path("loop.mlir")
    driven.write_text(LOOP)
    arguments = [str(driven), "-p", "lower-blocks,lower-loop-to-kernel,dce", "-o", "out.mlir"]
    assert driver.main(["--load", "plugin.py", *arguments, "--verify-each=exec"]) == 0
    lowered = TextParser(new_context(), Path("out.mlir").read_text()).parse_module()
    z = np.zeros(4, np.float32)
    compile_module(lowered).function("f")(X, z)
    np.testing.assert_array_equal(z, X * X * X)


def test_an_operator_of_a_domain_of_its_own() -> None:
    with pytest.raises(UnsupportedError, match=r"my.company.Triple is not supported.*plugins.md"):
        run("my.company.Triple")
    np.testing.assert_allclose(run("my.company.Triple", plugins=[plugin(GATE)]), -3 * X)
    text = GATE.replace("x * 3", "x * 5")
    np.testing.assert_allclose(run("my.company.Triple", plugins=[plugin(text)]), -5 * X)


def test_mistakes_of_a_handler_are_its_own() -> None:
    """Errors in a handler's code are reported as bugs of the handler, not of the model."""
    text = GATE.replace("ctx.input(0)", "ctx.inputs_of_all(0)")
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "inputs_of_all" in each)
    message = rf"handler of my.company.Triple, .*plugin.py:{line}, raised AttributeError"
    with pytest.raises(InputError, match=message):
        run("my.company.Triple", plugins=[plugin(text)])


def test_graph_ops_are_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model("my.company.Triple"), "net.onnx")
    loaded = ["--load", str(plugin(GATE))]
    assert driver.main([*loaded, "net.onnx", "-o", "net.mlir"]) == 0
    assert "graph.triple %x" in Path("net.mlir").read_text()
    passes = "fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,lower-blocks"
    assert driver.main([*loaded, "net.mlir", "-p", passes, "--verify-each=exec"]) == 0
    assert "mulf" in capsys.readouterr().out


def test_schemas_say_what_nodes_may_look_like() -> None:
    load_plugins([plugin(GATE)])
    wrong = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21, "my.company" : 1]>
net (float[4] x) => (float[4] y) { y = my.company.Triple <scale = 2.0> (x) }""")
    with pytest.raises(TcoptError, match="scale"):
        tcopt.compile(wrong)
    bad = "from tcopt.frontends.onnx.nodes.contrib import register_schema\n"
    bad += 'register_schema("a.B", attributes={"x": {}})\n'
    with pytest.raises(InputError, match=r"an attribute of a.B cannot be"):
        load_plugins([plugin(bad, "bad")])


def test_a_schedule_rule_is_told_of() -> None:
    before = tcopt.compile(model("Exp"))
    after = tcopt.compile(model("Exp"), plugins=[plugin(RULE)])
    rules = [kernel.rule for kernel in after.profile({"x": X}, runs=1).kernels]
    assert rules == ["untouched"]
    np.testing.assert_allclose(after.run({"x": X})[0], before.run({"x": X})[0], rtol=1e-6)


def test_passes_are_inserted(capsys: pytest.CaptureFixture[str]) -> None:
    sigmoid = -1 / (1 + np.exp(-X))
    with plugins_loaded([plugin(PASS)]):
        placed = {"before:fuse-ops": "sigmoid-for-tanh"}
        np.testing.assert_allclose(run("Tanh", passes=placed), sigmoid, rtol=1e-6)
        np.testing.assert_allclose(run("Tanh"), -np.tanh(X), rtol=1e-6)
    onnx.save(model("Tanh"), "net.onnx")
    insert = ["--insert-passes", "before:graph=sigmoid-for-tanh", "--load", "plugin.py"]
    assert tcopt_compile.main(["net.onnx", *insert, "--compile-to", "graph"]) == 0
    assert "graph.sigmoid" in capsys.readouterr().out
    assert tcopt_compile.main(["net.onnx", *insert[:2], "-o", "net.tcm"]) == 1
    assert "there is no pass 'sigmoid-for-tanh'" in capsys.readouterr().err


def test_an_installed_package_names_its_plugins(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = folder / "site"
    facts = site / "mine-1.0.dist-info"
    facts.mkdir(parents=True)
    (site / "mine_plugin_of_a_test.py").write_text(PASS)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[tcopt.plugins]\nmine = mine_plugin_of_a_test\n")
    monkeypatch.syspath_prepend(site)
    for name in ("mine", "mine_plugin_of_a_test"):
        with plugins_loaded([name]):
            assert driver.main(["--list-passes"]) == 0
            assert "sigmoid-for-tanh" in capsys.readouterr().out
    assert driver.main(["--list-passes"]) == 0
    assert "sigmoid-for-tanh" not in capsys.readouterr().out
    with pytest.raises(InputError, match=r"no plugin or module 'mines'; did you mean 'mine'"):
        load_plugins(["mines"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_like_it", "ModuleNotFoundError"),
        ("def f(:", "line 1: invalid syntax"),
        ("1 / 0", "line 1: ZeroDivisionError"),
        (RULE + RULE, "two definitions of schedule rule"),
    ],
)
def test_plugins_that_fail_leave_nothing(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"cannot load 'plugin.py': .*{message}"):
        load_plugins([plugin(text)])
    assert not is_extended()


def test_plugins_that_are_not_there() -> None:
    for name, message in (("no.py", "there is no file"), (".", "is a folder")):
        with pytest.raises(InputError, match=message):
            load_plugins([Path(name)])
    with pytest.raises(InputError, match="no plugin or module 'no_such'"):
        load_plugins(["no_such"])


def test_lit_runs_from_a_folder_of_ones_own(folder: Path) -> None:
    """The files that docs/plugins.md shows."""
    page = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
    for name, text in re.findall(r"^```text\n(?:#|//) ([\w.]+)\n(.*?)^```", page, re.M | re.S):
        (folder / name).write_text(text)
    plugin(CUBE)
    lit = [str(Path(sys.executable).parent / "lit"), "-v", str(folder)]
    done = subprocess.run(lit, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout
    assert "Passed: 1" in done.stdout
    broken = (folder / "cube.mlir").read_text().replace("output types", "output kinds")
    (folder / "cube.mlir").write_text(broken)
    done = subprocess.run(lit, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
