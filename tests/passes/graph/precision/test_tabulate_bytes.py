"""Functions of bytes as tables, on each level and CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import IntegerType, Signedness, i8

import tcopt
from checks.cpu_kernels import check_op
from models.checks import run_reference
from tcopt.backends.llvm.machine.host import runnable_targets
from tcopt.dialects.graph.elementwise.lookup import LookupOp
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.tools.execution.stage_runs import run_plain, run_te

U8 = IntegerType(8, Signedness.UNSIGNED)
TABLE = [int(n) for n in np.random.default_rng(5).integers(-128, 128, 256)]
"""A random table, whose halves and quarters all differ."""


@pytest.mark.parametrize("size", [1, 15, 16, 17, 63, 64, 65, 130, 1027])
def test_native_code_looks_up_all_lanes(size: int, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (3, size)).astype(np.int8)
    check_op(lambda value: LookupOp(value, TABLE, i8), x)


@pytest.mark.parametrize("bits", [128, 256])
def test_narrow_vectors_too(bits: int, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (5, 37)).astype(np.int8)
    check_op(lambda value: LookupOp(value, TABLE, i8), x, bits=bits)


def test_interpreters_agree() -> None:
    x = np.arange(256, dtype=np.uint8)
    source = te.placeholder((256,), U8, "x")
    stage = te.compute((256,), lambda i: te.lookup(source[i], TABLE, i8), name="y")
    function = te.func("f", [source], [stage])
    expected = np.array(TABLE, np.int8)
    (found,) = run_te(function, [x.view(np.int8)]).outputs
    np.testing.assert_array_equal(found.array, expected)
    buffers = [x.view(np.int8), np.zeros(256, np.int8)]
    call = run_plain(lower_function(function), buffers, [0, 1])
    np.testing.assert_array_equal(call.outputs[-1].array, expected)


class _Chain:
    """A model from byte to byte, with floats between."""

    def __init__(self, dtype: type[np.generic]):
        self.dtype = dtype
        self.nodes: list = []
        self.weights: list = []

    def weight(self, value: object) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def parameters(self, scale: float, zero: int) -> list[str]:
        low = int(np.iinfo(self.dtype).min)
        return [self.weight(np.float32(scale)), self.weight(np.array(low + zero, self.dtype))]

    def rounded(self, x: str, scale: float, zero: int) -> str:
        parameters = self.parameters(scale, zero)
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *parameters), *parameters)

    def model(self, function: Callable[[_Chain, str], str]) -> ModelProto:
        x = self.add("DequantizeLinear", "x", *self.parameters(0.05, 128))
        result = function(self, x)
        self.nodes.append(
            helper.make_node("QuantizeLinear", [result, *self.parameters(0.04, 20)], ["y"])
        )
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        shape = [1, 16, 4, 4]
        graph = helper.make_graph(
            self.nodes,
            "chain",
            [helper.make_tensor_value_info("x", kind, shape)],
            [helper.make_tensor_value_info("y", kind, shape)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _silu(chain: _Chain, x: str) -> str:
    return chain.add("Mul", x, chain.rounded(chain.add("Sigmoid", x), 1 / 255, 0))


def _gelu(chain: _Chain, x: str) -> str:
    part = chain.rounded(chain.add("Erf", chain.rounded(x, 0.03, 128)), 1 / 127, 128)
    part = chain.add("Add", part, chain.weight(np.float32(1)))
    return chain.add("Mul", x, chain.rounded(part, 2 / 255, 0))


def _mish(chain: _Chain, x: str) -> str:
    return chain.add("Mul", x, chain.add("Tanh", chain.add("Softplus", x)))


FUNCTIONS = {
    "silu": _silu,
    "mish": _mish,
    "hard_swish": lambda chain, x: chain.add("HardSwish", x),
    "gelu": _gelu,
    "leaky": lambda chain, x: chain.add("LeakyRelu", x, alpha=0.1),
    "root": lambda chain, x: chain.add("Sqrt", chain.add("Relu", x)),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_bytes_are_onnxruntimes(name: str, dtype: type[np.generic]) -> None:
    model = _Chain(dtype).model(FUNCTIONS[name])
    x = np.arange(256, dtype=np.uint8).view(dtype).reshape(1, 16, 4, 4)
    (ours,) = tcopt.compile(model).run({"x": x})
    (theirs,) = run_reference(model, {"x": x})
    # A value near a tie may round either way, because functions differ in the last bit.
    apart = np.abs(ours.astype(int) - theirs)
    assert apart.max() <= 1 and np.count_nonzero(apart) <= 2


@pytest.mark.nightly
def test_convolutions_take_tables_in(rng: np.random.Generator) -> None:
    """The rounded sums of a layer are looked up before they are stored, whatever the padding."""
    chain = _Chain(np.uint8)
    kernels: list[str] = []
    for _ in range(2):
        weights = rng.integers(-127, 128, (20, 20, 3, 3)).astype(np.int8)
        scale = chain.weight(np.float32(1e-3))
        kernels.append(chain.add("DequantizeLinear", chain.weight(weights), scale))
    real = chain.add("DequantizeLinear", "x", *chain.parameters(0.02, 100))
    for kernel in kernels:
        made = chain.add("Conv", real, kernel, pads=[1, 1, 1, 1])
        real = chain.rounded(_silu(chain, chain.rounded(made, 0.03, 120)), 0.02, 9)
    chain.nodes.append(helper.make_node("Identity", [real], ["y"]))
    shape = [1, 20, 9, 7]
    graph = helper.make_graph(
        chain.nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        chain.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = rng.integers(0, 256, shape).astype(np.uint8)
    (expected,) = run_reference(model, {"x": x})
    for cpu in (
        None,
        *[name for name in runnable_targets() if name in ("haswell", "skylake-avx512", "znver4")],
    ):
        (ours,) = tcopt.compile(model, "cpu" if cpu is None else f"cpu:{cpu}").run({"x": x})
        # Values of the first layer that round differently change sums of the second.
        assert np.abs(ours - expected).max() <= 2.01 * 0.02
        assert np.count_nonzero(np.abs(ours - expected) > 0.001) <= ours.size // 20
