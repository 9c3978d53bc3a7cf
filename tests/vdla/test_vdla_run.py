"""`accelerator_run`: encoded programs called by the host program, in memory and in model files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, StringAttr

import tcopt
from programs.vdla_programs import Conv, ConvWriter
from tcopt.backends.accelerator.code import code_for, settings_of
from tcopt.backends.accelerator.host_functions import accelerator_run
from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.vdla.machines import MACHINES
from tcopt.dialects.target import TARGET_ATTRIBUTE, CpuTargetAttr
from tcopt.runtime.build import build_program
from tcopt.runtime.model import Model
from tcopt.support.errors import InputError
from tcopt.support.pipelines.running import new_context
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.support.syntax.parsing import LocatedParser

HOST = """
func.func @main(%x: memref<8x16xui8>, %y: memref<8x16xui8>) {
  %half = memref.alloc() : memref<8x16xui8>
  loop.call @double(%x, %half) : memref<8x16xui8>, memref<8x16xui8>
  loop.call @double(%half, %y) : memref<8x16xui8>, memref<8x16xui8>
  func.return
}
accelerator.program @double(%x: memref<8x16xi8>, %y: memref<8x16xi8>)
    attributes {tcopt.target = #target.vdla<results = "i8", features = "alu,load_i8",
      inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  %k = vdla.kernel alu at 0 [8] dst [1] src [1] {
    uop 0, 0
  }
  vdla.load_uops %k
  vdla.load acc8 0, %x[0] : 1x8
  vdla.alu add %k push(store)
  vdla.store out 0, %y[0] : 1x8 pop(compute) push(compute)
  accelerator.finish pop(store)
}
"""


@pytest.fixture
def model() -> Model:
    """A model whose @main calls a program of the accelerator twice."""
    context = new_context()
    text = HOST.replace("ui8", "i8")
    module = LocatedParser(context, text, "host.mlir").parse_module()
    module.attributes |= {
        TARGET_ATTRIBUTE: CpuTargetAttr.of(host_target()),
        "graph.inputs": ArrayAttr([StringAttr("x")]),
        "graph.outputs": ArrayAttr([StringAttr("y")]),
    }
    for each in parse_pipeline("encode-accelerator,lower-loop-to-kernel,plan-memory"):
        each.apply(context, module)
    module.verify()
    return Model.of(build_program(module, {}))


def data() -> np.ndarray:
    return np.random.default_rng(0).integers(-128, 128, (8, 16), np.int8)


def test_the_host_program_runs_streams(model: Model) -> None:
    """Bytes wrap around as on the machine."""
    (y,) = model.run({"x": data()})
    np.testing.assert_array_equal(y, data() << 2)


def test_a_saved_model_runs_streams(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "double.tcm"
    model.save(path)
    (y,) = tcopt.load(path).run({"x": data()})
    np.testing.assert_array_equal(y, data() << 2)


def settings_and_arrays() -> tuple[dict[str, object], list[np.ndarray]]:
    conv = Conv(32, 8, 32, 3, 1, 1, 4, 4, tile_ci=2, h_threads=2)
    settings = settings_of(code_for(ConvWriter(conv).write(), MACHINES["vdla"]))
    return settings, [np.asarray(each) for each in conv.arrays()]


def test_a_convolution_runs_from_its_settings() -> None:
    settings, (x, w, y) = settings_and_arrays()
    accelerator_run(settings, [x, w, y])
    conv = Conv(32, 8, 32, 3, 1, 1, 4, 4, tile_ci=2, h_threads=2)
    np.testing.assert_array_equal(y, conv.reference(x, w))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("instructions", "00"),
        ("instructions", "zz"),
        ("instructions", "07" + "00" * 15),
        ("machine", ["rows=0"]),
        ("machine", 3),
        ("addresses", [0]),
        ("micro_ops", "0000"),
    ],
)
def test_settings_that_tell_no_program_are_refused(name: str, value: object) -> None:
    """Settings as in a modified file."""
    settings, arrays = settings_and_arrays()
    with pytest.raises(InputError, match=r"not a program of an accelerator|is not an instruction"):
        accelerator_run({**settings, name: value}, arrays)
