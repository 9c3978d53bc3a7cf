"""The target of docs/adding_a_target.md outside the tree, with every tool and the cache on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

import tcopt
from tcopt.compiler.passes import run_passes
from tcopt.frontends.onnx import import_model
from tcopt.runtime import load
from tcopt.runtime.archive import read_program
from tcopt.support.errors import InputError
from tcopt.support.pipelines.phases import pipeline_text
from tcopt.support.registries.plugins import load_plugins, unload
from tcopt.support.registries.registration import is_extended
from tcopt.tools import tcopt as driver
from tcopt.tools import tcopt_check, tcopt_compile, tcopt_run

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = """<ir_version: 10, opset_import: ["" : 21]>
net (float[1, 3, 8, 8] x, float[4, 3, 3, 3] w, float[4, 4] v) => (float[1, 4] y) {
  c = Conv<pads = [1, 1, 1, 1]>(x, w)
  r = Relu(c)
  p = GlobalAveragePool(r)
  f = Flatten(p)
  m = MatMul(f, v)
  y = Softmax(m)
}"""
SIZES = {"x": (1, 3, 8, 8), "w": (4, 3, 3, 3), "v": (4, 4)}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The target's file outside the tree, and a cache that stores programs."""
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TCOPT_CACHE", "1")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "toy.py"
    shutil.copy(EXAMPLES / "toy_target.py", path)
    yield path
    unload(path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


def feeds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape, np.float32) for name, shape in SIZES.items()}


@pytest.mark.nightly(daily=["toy:wide"])
@pytest.mark.parametrize("machine", ["toy", "toy:wide", "wide"])
def test_a_model_computes_what_it_does_on_a_cpu(toy: Path, model: Path, machine: str) -> None:
    # Weights are inputs here, so blocked channels need a kernel that reorders them.
    count = 4 if machine == "toy" else 5
    expected = tcopt.compile(model).run(feeds())
    compiled = tcopt.compile(model, machine, plugins=[toy])
    np.testing.assert_allclose(compiled.run(feeds())[0], expected[0], rtol=1e-5)
    compiled.save("net.tcm")
    again = load("net.tcm")
    assert again.program.kind == "toy"
    np.testing.assert_array_equal(again.run(feeds())[0], compiled.run(feeds())[0])
    profile = compiled.profile(feeds(), runs=1)
    assert len(profile.kernels) == count
    assert {kernel.rule for kernel in profile.kernels} == {"toy-unrolled"}


def test_what_a_machine_says_of_its_vectors_decides_on_layouts(toy: Path) -> None:
    """Blocked channels and packed weights, for a third-party target."""
    load_plugins([toy])
    rng = np.random.default_rng(1)
    proto = onnx.parser.parse_model(MODEL)
    for name in ("w", "v"):
        array = rng.standard_normal(SIZES[name]).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del proto.graph.input[1:]
    graphs: dict[str, str] = {}
    for machine in ("plain", "wide"):
        module = import_model(proto)
        for phase in tcopt.pipeline(f"toy:{machine}")[:2]:
            run_passes(module, phase.passes)
        graphs[machine] = str(module)
    assert "tensor<1x1x8x8x4xf32>" in graphs["wide"] and "graph.blocked_conv" in graphs["wide"]
    assert "graph.packed_matmul" in graphs["wide"]
    assert "graph.conv %" in graphs["plain"] and "graph.matmul" in graphs["plain"]
    x = {"x": feeds()["x"]}
    np.testing.assert_allclose(
        tcopt.compile(proto, "toy:wide").run(x)[0], tcopt.compile(proto).run(x)[0], rtol=1e-5
    )


def test_machines_differ_in_code(toy: Path, model: Path) -> None:
    load_plugins([toy])
    plain, wide = (
        tcopt.compile(model, target).program.size for target in ("toy:plain", "toy:wide")
    )
    assert wide > plain


def test_every_tool_takes_it(toy: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = ["--load", str(toy)]
    assert tcopt_compile.main([*loaded, "--target", "toy:wide", "--print-pipeline"]) == 0
    passes = capsys.readouterr().out.strip()
    assert passes.startswith('set-target{target="toy:wide"},')
    checked = [str(model), *loaded, "-p", passes, "-t", "toy", "--verify-each=exec"]
    assert driver.main(checked) == 0
    assert "void softmax" in capsys.readouterr().out
    assert tcopt_compile.main([str(model), *loaded, "--target", "toy", "-o", "net.tcm"]) == 0
    assert tcopt_run.main(["net.tcm", *loaded]) == 0
    compared = [str(model), *loaded, "--target", "toy", "--compare", "onnxruntime"]
    assert tcopt_run.main(compared) == 0
    assert tcopt_check.main([str(model), *loaded]) == 0
    assert driver.main([*loaded, "--list-targets"]) == 0
    assert "toy" in capsys.readouterr().out.splitlines()


def test_its_facts_are_read_back(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = ["--load", str(toy)]
    text = "builtin.module attributes {tcopt.target = #toy.machine<unroll = 3>} {}"
    Path("in.mlir").write_text(text)
    assert driver.main([*loaded, "in.mlir"]) == 0
    assert "#toy.machine<unroll = 3>" in capsys.readouterr().out
    assert driver.main(["in.mlir"]) == 1
    assert driver.main([*loaded, "in.mlir", "-p", "set-target{target=toy}"]) == 0
    assert "#toy.machine<unroll = 1>" in capsys.readouterr().out


def test_what_an_edit_of_the_file_changes_is_seen(toy: Path, model: Path) -> None:
    """In one process, with the cache on; unloading the target removes everything."""
    first = tcopt.compile(model, "toy", plugins=[toy]).run(feeds())[0]
    changed = toy.read_text().replace('"add": "{} + {}"', '"add": "{} - {}"')
    toy.write_text(changed)
    second = tcopt.compile(model, "toy", plugins=[toy]).run(feeds())[0]
    assert not np.allclose(first, second)
    toy.write_text(changed.replace('"wide"', '"broad"'))
    load_plugins([toy])
    assert is_extended()
    assert "toy:wide" not in pipeline_text(tcopt.pipeline("toy:broad"))
    with pytest.raises(InputError, match=r"target toy has no machine 'wide'.*plain, broad"):
        tcopt.pipeline("toy:wide")
    unload(toy)
    assert not is_extended()


def test_a_saved_model_of_a_target_that_is_not_loaded(toy: Path, model: Path) -> None:
    tcopt.compile(model, "toy", plugins=[toy]).save("net.tcm")
    unload(toy)
    with pytest.raises(InputError, match=r"target 'toy', which is not known here.*plugin"):
        load("net.tcm")
    load_plugins([toy])
    assert read_program(Path("net.tcm")).kind == "toy"
