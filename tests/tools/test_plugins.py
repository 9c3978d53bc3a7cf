"""Plugins from outside of the tree, one of each kind, with the cache on: none is stale or left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import tcopt
from gpu_programs import kernel_of, run_on_threads, without_barrier
from tcopt.backends.llvm.jit import compile_module
from tcopt.compiler import kernel_builder, worker
from tcopt.compiler.extensions import extensions, is_extended
from tcopt.compiler.kernel import Kernel
from tcopt.compiler.passes import new_context
from tcopt.compiler.program_cache import wait_for_writers
from tcopt.compiler.units import Unit, compile_unit
from tcopt.compiler.workers import Workers, _ask, _plugins
from tcopt.interpreters.kernel_memory import RaceError
from tcopt.interpreters.loop import run_func
from tcopt.interpreters.scalars import evaluate_scalar
from tcopt.support.errors import InputError, TcoptError, UnsupportedError
from tcopt.support.parsing import TextParser
from tcopt.support.phases import Phase
from tcopt.support.plugin_sources import outside_influence
from tcopt.support.plugins import (
    PluginSource,
    load_plugins,
    plugins_loaded,
    take_sources,
    told_sources,
    unload,
)
from tcopt.tools import tcopt as driver
from tcopt.tools import tcopt_compile

CUBE = '''
"""An op of the kernel level, its meaning and its code, and an attribute."""
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import (IRDLOperation, irdl_attr_definition, irdl_op_definition, operand_def,
                       param_def, result_def)
from xdsl.traits import Pure
from xdsl.irdl import traits_def

from tcopt.backends.llvm.emit.registry import emits
from tcopt.interpreters.meanings import meaning


@irdl_attr_definition
class TagAttr(ParametrizedAttribute):
    name = "demo.tag"
    number: IntAttr = param_def()


@irdl_op_definition
class CubeOp(IRDLOperation):
    name = "demo.cube"
    x = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `->` type($result)"


@meaning(CubeOp)
def cube(op, x):
    return x * x * x


@emits(CubeOp)
def emit_cube(e, op):
    x = e.value(op.x)
    square = e.assign(f"fmul float {x}, {x}")
    e.define(op.result, e.assign(f"fmul float {square}, {x}"))
'''

LOOP = """
loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    loop.block "y" (%v: spatial 4 = %i) {
      %0 = loop.load %x[%v] : memref<4xf32>
      %1 = demo.cube %0 : f32 -> f32
      loop.store %1, %y[%v] : memref<4xf32>
    }
  }
}
"""

GATE = '''
"""An operator of the graph level, and of ONNX in a domain of its own."""
import numpy as np
from xdsl.irdl import irdl_op_definition

from tcopt.dialects.graph.elementwise import UnaryOp
from tcopt.dialects.te import api as te
from tcopt.frontends.onnx.nodes.contrib import register_schema
from tcopt.frontends.onnx.context.registry import handler


@irdl_op_definition
class TripleOp(UnaryOp):
    """3 * x"""

    name = "graph.triple"

    def compute(self, x):
        return x * 3

    def expression(self, x):
        return x * 3


register_schema("my.company.Triple")


@handler("my.company.Triple")
def triple(ctx):
    return ctx.emit(TripleOp(ctx.input(0)))
'''

RULE = """
from tcopt.schedules.rules.rule import schedule_rule


@schedule_rule(target="cpu", priority=9999)
class Untouched:
    name = "untouched"

    def apply(self, sch, target):
        return None
"""

PASS = '''
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.passes import ModulePass

from tcopt.dialects import graph


@dataclass(frozen=True)
class SigmoidForTanh(ModulePass):
    """Another function in place of tanh."""

    name = "sigmoid-for-tanh"

    def apply(self, ctx, op):
        for inner in list(op.walk()):
            if isinstance(inner, graph.TanhOp):
                new = graph.SigmoidOp(inner.x)
                inner.parent_block().insert_op_before(new, inner)
                inner.results[0].replace_all_uses_with(new.results[0])
                inner.detach()
                inner.erase()
'''

X = np.linspace(-1, 1, 4, dtype=np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder outside of the tree, a cache that keeps programs, and no plugin at the end."""
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TCOPT_CACHE", "1")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        unload(path)
    assert not is_extended()


def plugin(text: str, name: str = "plugin") -> Path:
    path = Path(f"{name}.py")
    path.write_text(text)
    return path


def model(operator: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21, "my.company" : 1]>
net (float[4] x) => (float[4] y) {{ z = {operator}(x) y = Neg(z) }}""")


def run(operator: str, **options: object) -> np.ndarray:
    return tcopt.compile(model(operator), **options).run({"x": X})[0]  # pyright: ignore


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


# Plugins and the cache.

SCALED = """
from xdsl.dialects import math

from tcopt.passes.kernel.math.polynomials.builder import expands


@expands(math.ExpOp)
def mine(b, x):
    return b.add(x, {number})
"""
"""Exp is a sum."""


def cached_run(path: Path | None, **options: object) -> tuple[bool, np.ndarray]:
    plugins = [] if path is None else [path]
    compiled = tcopt.compile(model("Exp"), plugins=plugins, **options)  # pyright: ignore
    wait_for_writers()
    return compiled.program.cached, compiled.run({"x": X})[0]  # pyright: ignore


def test_what_a_plugin_made_is_found_again() -> None:
    """As long as it is the same; what others made is not taken for it."""
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
        ("from . import other\n", "imports a module beside it"),
        ("FACTOR = float(open('factor').read())\n", "uses open"),
        ("import numpy as np\nTABLE = np.load('table.npy')\n", "uses np.load"),
        ("from numpy.random import default_rng\n", "imports numpy.random"),
        ("def f(n): return __import__(n)\n", "uses __import__"),
        ("from tcopt.support import files\nx = files.open_file\n", "uses open_file"),
    ],
)
def test_sources_that_do_not_say_all(text: str, reason: str) -> None:
    told = outside_influence(text.encode())
    assert told is not None and reason in told


@pytest.mark.parametrize("text", [CUBE, GATE, RULE, PASS, SCALED])
def test_sources_that_say_all(text: str) -> None:
    assert outside_influence(text.encode()) is None


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
    """A global variable of the plugin, or what it registers later."""
    text = SCALED.format(number="NUMBER") + "\n\nNUMBER = 1.0\n\ndef later():\n"
    text += "    from xdsl.dialects import arith\n    expands(arith.NegfOp)(mine)\n"
    (module,) = load_plugins([plugin(text)])
    assert not is_extended()
    module.NUMBER = 2.0
    assert is_extended()
    np.testing.assert_allclose(cached_run(Path("plugin.py"))[1], -(X + 2), rtol=1e-6)
    module.NUMBER = 1.0
    assert not is_extended()
    module.later()
    assert any("expansion" in told for told in extensions())


def test_workers_have_the_same_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    path = plugin(SCALED.format(number=1.0))
    taken: list[tuple[Unit, Sequence[Phase]]] = []

    def take(unit: Unit, phases: Sequence[Phase]) -> Kernel:
        taken.append((unit, phases))
        return compile_unit(unit, phases)

    with monkeypatch.context() as patch:
        patch.setattr(kernel_builder, "compile_unit", take)
        compiled = tcopt.compile(model("Exp"), cache=False, workers=0, plugins=[path])
    ((unit, phases),) = taken
    with Workers(1) as workers:
        (process,) = workers.processes
        code = Kernel.from_bytes(_ask(process, unit, phases)).code
        assert code in compiled.program.objects  # pyright: ignore
        unload(path)
        assert Kernel.from_bytes(_ask(process, unit, phases)).code != code
        load_plugins([path])
        assert Kernel.from_bytes(_ask(process, unit, phases)).code == code
    plain = PluginSource(str(path.resolve()), path.read_bytes())
    assert told_sources() == [plain]
    request = {"phases": [], "name": "f", "text": "", "plugins": _plugins()}
    unload(path)
    assert not told_sources()
    assert worker._answer(json.dumps(request).encode())[:1] == b"-"  # The text is no unit.
    assert told_sources() == [plain] and not is_extended()
    take_sources([])
    assert not told_sources()


# Memory scopes.

SCOPE = """
from tcopt.dialects.loop.scopes import Scope, Sharing, register_scope

TILE = register_scope(Scope("tile", Sharing.{sharing}, space={space}, capacity={capacity}))
"""

SCHEDULED = """
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "t" (%v: spatial 64 = %i) {
      %0 = loop.load %x[%v] : memref<64xf32>
      %1 = arith.addf %0, %0 : f32
      loop.store %1, %t[%v] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.block "y" (%v: spatial 64 = %i) {
      %0 = loop.load %t[%v] : memref<64xf32>
      %1 = loop.load %x[-%v + 63] : memref<64xf32>
      %2 = arith.mulf %0, %1 : f32
      loop.store %2, %y[%v] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %t = sched.get_block "t"
  sched.set_scope %t to tile
  %y = sched.get_block "y"
  %c = sched.cache_read %y of "x" into tile
}
"""
LOWERED = "lower-blocks,compact-buffers,lower-loop-to-kernel,promote-registers,dce"


def scope(sharing: str = "THREAD", space: object = 7, capacity: object = 4096) -> Path:
    return plugin(SCOPE.format(sharing=sharing, space=space, capacity=capacity), "scope")


def test_a_memory_scope_is_one_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """Steps take it, passes and the interpreters of both levels handle it, code has its space."""
    Path("in.mlir").write_text(SCHEDULED)
    assert driver.main(["in.mlir", "-p", "apply-schedule"]) == 1
    assert "'tile' is none of the memory scopes global, shared" in capsys.readouterr().err
    loaded = ["--load", str(scope())]
    assert driver.main([*loaded, "in.mlir", "-p", "apply-schedule", "--verify-each=exec"]) == 0
    text = capsys.readouterr().out
    assert text.count("loop.alloc tile") == 2 and 'loop.block "x_tile"' in text
    Path("loops.mlir").write_text(text)
    for form in ([], ["--print-op-generic"]):
        assert driver.main([*loaded, "loops.mlir", *form]) == 0
        Path("loops.mlir").write_text(capsys.readouterr().out)
    lowering = ["-p", LOWERED, "--verify-each=exec", "-o", "kernel.mlir"]
    assert driver.main([*loaded, "loops.mlir", *lowering]) == 0
    kernel = Path("kernel.mlir").read_text()
    assert kernel.count("memref<64xf32, 7 : i64>") >= 2 and "memref.alloca" in kernel
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    compile_module(TextParser(new_context(), kernel).parse_module()).function("f")(x, y)
    np.testing.assert_array_equal(y, 2 * x * x[::-1])


def test_a_memory_scope_has_a_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.mlir").write_text(SCHEDULED)
    passes = ["in.mlir", "-p", "apply-schedule,lower-blocks,lower-loop-to-kernel"]
    assert driver.main(["--load", str(scope(capacity=512)), *passes]) == 0
    assert driver.main(["--load", str(scope(capacity=511)), *passes]) == 1
    told = capsys.readouterr().err
    assert "buffers of scope tile take 512 bytes at a time, and it has 511" in told


def test_threads_of_a_block_share_what_a_scope_says() -> None:
    """Each thread reads what another one wrote: there is a barrier, and has to be."""
    load_plugins([scope("BLOCK")])
    module = TextParser(
        new_context(),
        """
loop.func @exchange(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc tile : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%t] : memref<64xf32>
    loop.store %a, %s[%t] : memref<64xf32>
    %b = loop.load %s[63 - %t] : memref<64xf32>
    loop.store %b, %y[%t] : memref<64xf32>
  }
}""",
    ).parse_module()
    (function,) = module.ops
    function.detach()
    kernel = kernel_of(function, passes="insert-barriers,lower-loop-to-kernel")  # pyright: ignore
    assert "memref<64xf32, 7 : i64>" in str(kernel)
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(run_on_threads(kernel, x, shape=(64,)), x[::-1])
    with pytest.raises(RaceError):
        run_on_threads(without_barrier(kernel, 0), x, shape=(64,))


def test_memory_scopes_that_cannot_be() -> None:
    for name, space, message in (("a b", 7, "cannot be called 'a b'"), ("tile", 3, "'shared'")):
        text = SCOPE.format(sharing="ALL", space=space, capacity=None).replace("tile", name)
        with pytest.raises(InputError, match=message):
            load_plugins([plugin(text, "scope")])
