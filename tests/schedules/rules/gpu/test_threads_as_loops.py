"""Tiles for devices that run threads as CPU loops: each thread has vectors."""

from __future__ import annotations

import onnx.parser
import pytest
from onnx import ModelProto

from programs.gpu_programs import matmul
from tcopt.backends.named_gpus import named_gpu
from tcopt.compiler.options import CompileOptions
from tcopt.schedules import Schedule
from tcopt.schedules.rules.gpu.facts import gpu_facts
from tcopt.schedules.rules.gpu.register_tile import RegisterTiles, RegisterTileSpace
from tcopt.tuner.arms import arms_of
from tcopt.tuner.tasks import tasks_of

POCL = gpu_facts(named_gpu("pocl"))


def strided(width: int, channels: int = 32) -> ModelProto:
    """A convolution whose adjacent results read every other element."""
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
        f (float[1, 16, {2 * width}, {2 * width}] x, float[{channels}, 16, 3, 3] w)
        => (float[1, {channels}, {width}, {width}] y) {{
          y = Conv <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x, w) }}""")


def default_of(model: ModelProto, target: str = "opencl:pocl") -> dict[str, int]:
    (task,) = tasks_of(model, CompileOptions(target=target))
    (arm,) = (arm for arm in arms_of(task) if arm.rule == "gpu-register-tile")
    return arm.space.default()


def test_only_threads_in_lockstep_are_a_gpu_s():
    assert gpu_facts(named_gpu("mali")).in_lockstep
    assert not POCL.in_lockstep


@pytest.mark.parametrize(("row", "lanes"), [(64, 8), (56, 8), (28, 4), (14, 2), (7, 1)])
def test_vectors_are_as_wide_as_rows_allow(row: int, lanes: int):
    """On a GPU a vector of two saves little; here it determines the speed."""
    assert POCL.lanes(32, row) == lanes
    assert gpu_facts(named_gpu("mali")).lanes(32, 14) == 1


@pytest.mark.parametrize(("width", "lanes"), [(56, 8), (28, 4), (14, 2)])
def test_strided_columns_are_vectors(width: int, lanes: int):
    assert default_of(strided(width))["lanes"] == lanes
    assert default_of(strided(width), "opencl:mali")["lanes"] == 1


def test_rows_divide_what_there_is():
    """Tiles divide the rows, because remaining rows would need guards one by one."""
    assert default_of(strided(28, 32))["rows"] == 8
    assert default_of(strided(28, 36))["rows"] == 6
    assert default_of(strided(28, 49))["rows"] == 7


def test_single_numbers_have_few_rows():
    assert default_of(strided(7))["rows"] == 2


@pytest.mark.parametrize(("rows", "written"), [(1, 64), (4, 256), (7, 256), (8, 16)])
def test_windows_are_written_out_whole_or_not_at_all(rows: int, written: int):
    """Nine steps of rows by four lanes are 36, 144, 252 and 288 multiply-adds."""
    (task,) = tasks_of(strided(28), CompileOptions(target="opencl:pocl"))
    (arm,) = (arm for arm in arms_of(task) if arm.rule == "gpu-register-tile")
    assert arm.space.complete({"rows": rows, "lanes": 4})["written"] == written


def test_products_have_wide_vectors():
    """A small product has tiles for all cores."""
    for size, rows in ((256, 8), (64, 2)):
        space = RegisterTiles().space(Schedule(matmul(size, size, 64)), POCL)
        assert isinstance(space, RegisterTileSpace)
        choice = space.default()
        assert (choice["rows"], choice["lanes"]) == (rows, 8)
