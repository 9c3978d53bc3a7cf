"""tcopt.compile and its pipeline: phases, text, progress, shapes and values, specialisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto
from xdsl.context import Context

import tcopt
from models import convolutional
from models.checks import run_reference
from models.light_models import random_inputs
from models.network import Network
from tcopt.backends.llvm.objects import emit_assembly
from tcopt.compiler import PHASES, STEPS, Phase, lower, pipeline
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.frontends.onnx import import_model
from tcopt.frontends.onnx.checking import check_model
from tcopt.runtime import Model
from tcopt.runtime.build import build_program
from tcopt.support.errors import (
    ImportModelError,
    InputError,
    PassFailedError,
    TcoptError,
    UnsupportedError,
)
from tcopt.support.pipelines.phases import pipeline_text
from tcopt.support.pipelines.text import parse_pipeline, print_pipeline
from tcopt.support.registries.registry import all_dialects

# Tolerance for sums of at most 16 terms of magnitude one.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def dense(batch: int | str = 2) -> ModelProto:
    """y = relu(x @ w + b) for x of [batch, 8]."""
    net = Network("dense")
    x = net.input("x", [batch, 8])
    y = net.add("Relu", net.gemm(x, 8, 5))
    return net.model(**{y: [batch, 5]})


def reshaping() -> ModelProto:
    """Model that reshapes `x` of [4, n] to the input `shape` and adds one."""
    net = Network("reshaping")
    x = net.input("x", [4, "n"])
    shape = net.input("shape", ["rank"], TensorProto.INT64)
    y = net.add("Add", net.add("Reshape", x, shape), net.scalar(1.0))
    return net.model(**{y: ["a", "b"]})


def check(model: ModelProto, compiled: Model, feeds: dict[str, np.ndarray]) -> None:
    (actual,) = compiled.run(feeds)
    np.testing.assert_allclose(actual, run_reference(model, feeds)[0], **CLOSE)


# Tests of the pipeline.


def test_phases_are_named_in_order():
    assert tuple(phase.name for phase in pipeline()) == PHASES
    assert [phase.name for phase in pipeline() if not phase.passes] == ["import", "code"]


@pytest.mark.parametrize("target", ["cpu", "cpu:haswell"])
def test_pipeline_text_is_read_again_alike(target):
    for phase in pipeline(target):
        if phase.passes:
            assert print_pipeline(parse_pipeline(phase.text)) == phase.text
            assert Phase(phase.name, phase.text) == phase


@pytest.mark.nightly
def test_running_the_whole_text_is_running_the_phases():
    model = convolutional.residual_net(16, 4)
    by_phase, at_once = import_model(model), import_model(model)
    for phase in pipeline():
        lower(by_phase, [phase])
    text = pipeline_text(pipeline())
    context = Context()
    for name, factory in all_dialects().items():
        context.register_dialect(name, factory)
    for each in parse_pipeline(text):
        each.apply(context, at_once)
    first, second = (str(module).split("\n", 1)[1] for module in (by_phase, at_once))
    assert first == second


@pytest.mark.nightly
def test_compiling_twice_makes_the_same_code():
    model = convolutional.residual_net(16, 4)
    first, second = (tcopt.compile(model, cache=False).program for _ in range(2))
    assert first.objects == second.objects
    np.testing.assert_array_equal(first.weights, second.weights)


def test_steps_are_timed():
    compiled = tcopt.compile(dense()).program
    assert list(compiled.compile_times) == list(STEPS)
    assert all(seconds >= 0 for seconds in compiled.compile_times.values())


@pytest.mark.parametrize(("name", "opcode"), [("cortex-a72", "fmla"), ("haswell", "vfmadd")])
def test_named_targets_can_be_lowered_for(name, opcode):
    module = import_model(dense())
    lower(module, pipeline(f"cpu:{name}"))
    assert opcode in emit_assembly(module)


def test_unknown_targets_are_errors():
    with pytest.raises(UnsupportedError, match="there is no target 'cpv'") as caught:
        tcopt.compile(dense(), target="cpv")
    assert "cpu" in (caught.value.hint or "")
    with pytest.raises(TcoptError, match="target cpu has no machine 'z80'"):
        tcopt.compile(dense(), target="cpu:z80")


def test_a_failing_pass_names_the_op_and_its_location():
    module = import_model(convolutional.residual_net(8, 4))
    lower(module, [phase for phase in pipeline() if phase.name in ("graph", "te", "loop")])
    with pytest.raises(
        PassFailedError, match=r"'loop.block'.*at \"Conv_0\".*run lower-blocks first"
    ):
        lower(module, [Phase("kernel", "lower-loop-to-kernel")])


def test_code_needs_a_memory_plan():
    module = import_model(dense())
    with pytest.raises(PassFailedError, match="@main has no memory plan"):
        build_program(module, weights_of(module) or {})


# Tests of `tcopt.compile`.


def test_progress_is_told_step_by_step():
    seen: list[tuple[str, int, int]] = []
    tcopt.compile(dense(), progress=lambda *step: seen.append(step))
    assert seen == [*((name, n, len(STEPS)) for n, name in enumerate(STEPS)), ("done", 5, 5)]


def test_sources_may_be_files_bytes_or_models(tmp_path: Path):
    model = dense()
    path = tmp_path / "dense.onnx"
    onnx.save(model, path)
    feeds = random_inputs(model)
    results = [
        tcopt.compile(source).run(feeds)[0]
        for source in (path, str(path), path.read_bytes(), model)
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_models_may_change_after_they_were_compiled():
    model = dense()
    feeds = random_inputs(model)
    compiled = tcopt.compile(model)
    (expected,) = run_reference(model, feeds)
    for weight in model.graph.initializer:
        weight.raw_data = bytes(len(weight.raw_data))
    np.testing.assert_allclose(compiled.run(feeds)[0], expected, **CLOSE)


def test_unsupported_operators_are_listed():
    net = Network("odd")
    x = net.input("x", [2])
    y = net.add("NoSuchOp", net.add("AlsoMissing", x))
    with pytest.raises(UnsupportedError, match="NoSuchOp") as caught:
        tcopt.compile(net.model(**{y: [2]}))
    assert "AlsoMissing" in str(caught.value)


@pytest.mark.parametrize("source", [b"", b"no model", "no/such/file.onnx"])
def test_what_is_no_model_is_an_error(source):
    with pytest.raises(TcoptError):
        tcopt.compile(source)


def test_identity_and_constant_outputs():
    """Results that no kernel computes: an argument and a weight."""
    net = Network("trivial")
    x = net.input("x", [3])
    same, known = net.add("Identity", x), net.add("Identity", net.normal([4], 1.0))
    model = net.model(**{same: [3], known: [4]})
    feeds = random_inputs(model)
    compiled = tcopt.compile(model)
    for ours, theirs in zip(compiled.run(feeds), run_reference(model, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_scalars_and_empty_tensors():
    net = Network("edges")
    x, e = net.input("x", []), net.input("e", [0, 3])
    outputs = {net.add("Exp", x): [], net.add("Relu", e): [0, 3], net.add("ReduceSum", e): [1, 1]}
    model = net.model(**outputs)
    feeds = random_inputs(model)
    compiled = tcopt.compile(model)
    for ours, theirs in zip(compiled.run(feeds), run_reference(model, feeds), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, **CLOSE)


# Tests of dynamic shapes.


def test_shapes_given_ahead_make_a_fixed_model():
    model = dense("batch")
    compiled = tcopt.compile(model, shapes={"x": [3, 8]})
    assert compiled.inputs[0].shape == (3, 8)
    assert compiled.program.inputs == compiled.inputs
    check(model, compiled, {"x": np.ones((3, 8), np.float32)})
    with pytest.raises(InputError, match="got shape"):
        compiled.run({"x": np.ones((4, 8), np.float32)})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": [1]}, "no input 'z'"),
        ({"x": [3, 9]}, "does not fit"),
        ({"x": [3]}, "does not fit"),
        ({"x": [-1, 8]}, "negative"),
    ],
)
def test_shapes_that_do_not_fit_are_errors(shapes, message):
    with pytest.raises(InputError, match=message):
        tcopt.compile(dense("batch"), shapes=shapes)


def test_open_shapes_are_compiled_at_the_first_run(rng):
    model = dense("batch")
    seen: list[str] = []
    compiled = tcopt.compile(model, progress=lambda name, *_: seen.append(name))
    assert not seen
    assert compiled.inputs[0].shape == ("batch", 8)
    with pytest.raises(UnsupportedError, match="shapes are open") as caught:
        compiled.save("model.tcm")
    assert "shapes=" in (caught.value.hint or "")
    for batch, compiles in ((1, 1), (7, 2), (1, 2), (7, 2), (12, 2)):
        check(model, compiled, {"x": rng.standard_normal((batch, 8)).astype(np.float32)})
        assert seen.count("done") == compiles


def test_inputs_of_any_rank(rng):
    model = dense("batch")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    compiled = tcopt.compile(model, workers=0)
    assert compiled.inputs[0].any_rank
    check(model, compiled, {"x": rng.standard_normal((2, 8)).astype(np.float32)})
    with pytest.raises(InputError, match='"x" float32 of any shape'):
        compiled.run({})


def test_dimensions_are_fixed_by_name(rng):
    net = Network("named")
    x = net.input("x", ["batch", "seq", 4])
    model = net.model(**{net.add("Relu", x): ["batch", "seq", 4]})
    compiled = tcopt.compile(model, dims={"batch": 2, "seq": 3})
    feed = rng.standard_normal((2, 3, 4)).astype(np.float32)
    check(model, compiled, {"x": feed})
    assert compiled.extents() == {"batch": 2, "seq": 3}
    assert [spec.dims for spec in (*compiled.inputs, *compiled.outputs)] == [
        ("batch", "seq", 4)
    ] * 2
    message = r"seq is 5, the model was compiled for seq = 3 \(by the dims given\)"
    with pytest.raises(InputError, match=message) as caught:
        compiled.run({"x": np.ones((2, 5, 4), np.float32)})
    assert 'dims={"seq": 5}' in (caught.value.hint or "")
    # Dimensions that are not fixed stay dynamic.
    partly = tcopt.compile(model, dims={"batch": 2})
    assert partly.inputs[0].shape == (2, "seq", 4)
    check(model, partly, {"x": feed})
    assert partly.extents({"x": feed}) == {"batch": 2, "seq": 3}
    with pytest.raises(InputError, match="batch is 7, the model was compiled for batch = 2"):
        partly.run({"x": np.ones((7, 3, 4), np.float32)})
    with pytest.raises(InputError, match="no dimension 'bach'; open dimensions are batch, seq"):
        tcopt.compile(model, dims={"bach": 2})
    with pytest.raises(InputError, match="'batch' cannot be -1"):
        tcopt.compile(model, dims={"batch": -1})


def test_sums_with_numbers_of_any_length():
    """A name may be any string, even a very long number."""
    net = Network("long")
    x = net.input("x", ["n", "9" * 5000 + " + n"])
    model = net.model(**{net.add("Relu", x): ["n", None]})
    assert tcopt.compile(model, dims={"n": 1}).inputs[0].shape[0] == 1
    assert not check_model(model).problems


def test_names_of_dimensions_are_saved(tmp_path):
    compiled = tcopt.compile(dense("batch"), shapes={"x": [3, 8]})
    with pytest.raises(InputError, match=r'batch = 3 \(by the shape given for input "x"\)'):
        compiled.run({"x": np.ones((4, 8), np.float32)})
    compiled.save(tmp_path / "m.tcm")
    loaded = tcopt.load(tmp_path / "m.tcm")
    assert loaded.inputs == compiled.inputs and loaded.outputs == compiled.outputs
    with pytest.raises(InputError, match="compiled for batch = 3;"):
        loaded.run({"x": np.ones((4, 8), np.float32)})


def test_symbols_shared_by_inputs_must_agree(rng):
    net = Network("sum")
    x, y = net.input("x", ["n"]), net.input("y", ["n"])
    model = net.model(**{net.add("Add", x, y): ["n"]})
    compiled = tcopt.compile(model)
    one, two = np.ones(3, np.float32), np.ones(4, np.float32)
    check(model, compiled, {"x": one, "y": one})
    # The extents may differ, as in onnxruntime, but this operator needs equal ones.
    with pytest.warns(UserWarning, match="n is 4"), pytest.raises(ImportModelError):
        compiled.run({"x": one, "y": two})
    # A failed specialisation leaves the model usable.
    check(model, compiled, {"x": two, "y": two})


def test_values_that_decide_shapes_are_specialised_on(rng):
    model = reshaping()
    seen: list[str] = []
    compiled = tcopt.compile(model, progress=lambda name, *_: seen.append(name))
    x = rng.standard_normal((4, 6)).astype(np.float32)
    for shape, compiles in (([2, 12], 1), ([12, 2], 2), ([2, 12], 2), ([24, -1], 3)):
        check(model, compiled, {"x": x, "shape": np.array(shape)})
        assert seen.count("done") == compiles
    # The values of other inputs are not part of the key.
    check(model, compiled, {"x": x + 1, "shape": np.array([2, 12])})
    assert seen.count("done") == 3


def test_values_given_ahead():
    model = reshaping()
    compiled = tcopt.compile(model, shapes={"x": [4, 6]}, values={"shape": np.array([8, 3])})
    assert compiled.outputs[0].shape == (8, 3)
    x = np.ones((4, 6), np.float32)
    check(model, compiled, {"x": x, "shape": np.array([8, 3])})


@pytest.mark.parametrize(
    "values", [{"z": np.array([1])}, {"shape": np.array([8.0, 3.0])}, {"shape": np.array([5, 5])}]
)
def test_values_that_do_not_fit_are_errors(values):
    with pytest.raises((InputError, ImportModelError)):
        tcopt.compile(reshaping(), shapes={"x": [4, 6]}, values=values)


def test_a_shape_that_does_not_fit_the_data_is_an_error_of_the_run():
    compiled = tcopt.compile(reshaping())
    x = np.ones((4, 6), np.float32)
    with pytest.raises(TcoptError):
        compiled.run({"x": x, "shape": np.array([5, 5])})
    check(reshaping(), compiled, {"x": x, "shape": np.array([8, 3])})


def test_least_recently_used_programs_go_first():
    net = Network("squeezed")
    # Its rank depends on the batch, so each batch has its own program.
    squeezed = net.add("Squeeze", net.input("x", ["batch", 1, 8]))
    model = net.model(**{net.add("Relu", squeezed): []})
    model.graph.output[0].type.tensor_type.ClearField("shape")
    compiled_for: list[str] = []
    compiled = tcopt.compile(
        model, programs_kept=2, progress=lambda name, *_: compiled_for.append(name)
    )

    def compiles(batch: int) -> int:
        compiled_for.clear()
        check(model, compiled, {"x": np.ones((batch, 1, 8), np.float32)})
        return compiled_for.count("done")

    assert [compiles(batch) for batch in (1, 2, 1)] == [1, 1, 0]
    # 2 is the least recently used entry and is replaced by 3.
    assert [compiles(batch) for batch in (3, 1, 2, 3)] == [1, 0, 1, 1]
    compiled.programs_kept = 1
    assert [compiles(batch) for batch in (3, 2)] == [0, 1]
    compiled_for.clear()
    for wrong in (0, True):
        with pytest.raises(InputError, match=f"at least 1, got {wrong}"):
            tcopt.compile(
                model, programs_kept=wrong, progress=lambda name, *_: compiled_for.append(name)
            )
    assert not compiled_for
