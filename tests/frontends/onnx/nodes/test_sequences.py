"""Sequences and optionals as inputs and outputs, against onnxruntime and numpy."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import tcopt
from models.checks import run_reference
from tcopt.compiler.onnx_backend import Backend
from tcopt.frontends.onnx import MissingShapesError, import_model
from tcopt.frontends.onnx.checking import check_model
from tcopt.frontends.onnx.model.limits import ModelLimits
from tcopt.support.errors import ImportModelError, InputError, TcoptError, UnsupportedError
from tcopt.tools import tcopt_check, tcopt_run

SHIFTED = """shifted (seq(float[n]) s, float[3] x) => (seq(float[n]) t, int64 count) {
    one = Constant<value_int = 1>()
    last = Constant<value_int = -1>()
    longer = SequenceInsert(s, x)
    doubled = SequenceMap(longer) <body = add (float[n] a) => (float[n] b) { b = Add(a, a) }>
    shorter = SequenceErase(doubled, last)
    t = SequenceInsert(shorter, x, one)
    count = SequenceLength(t)
}"""


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')


def arrays(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def check(actual: object, expected: object) -> None:
    """Equal kinds, lengths, shapes and types; values within tolerance."""
    if isinstance(expected, list):
        assert isinstance(actual, list) and len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            check(ours, theirs)
        return
    assert isinstance(actual, np.ndarray)
    expected = np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_a_program_for_each_length_and_shapes(rng):
    model, compiles = model_of(SHIFTED), list[str]()
    compiled = tcopt.compile(
        model, workers=0, cache=False, progress=lambda name, *_: compiles.append(name)
    )
    (x,) = arrays(rng, (3,))
    shapes = [[(2,), (5,)], [(2,), (5,)], [(4,)], [(1, 2), (3, 1, 1), ()]]
    for count, given in zip((1, 1, 2, 3), shapes, strict=True):
        feeds = {"s": arrays(rng, *given), "x": x}
        results = compiled.run(feeds)
        check(results[0], [*(2 * v for v in feeds["s"][:1]), x, *(2 * v for v in feeds["s"][1:])])
        assert results[1] == len(given) + 1
        assert compiles.count("done") == count
    theirs = run_reference(model, {"s": feeds["s"][:1], "x": x})
    check(compiled.run({"s": feeds["s"][:1], "x": x}), theirs)


def test_an_empty_sequence_is_one():
    model = model_of("""gone (seq(float[n]) s) => (seq(float[n]) t, int64 count)
        { t = Identity(s)
          count = SequenceLength(s) }""")
    (empty, count) = tcopt.compile(model, workers=0).run({"s": []})
    assert empty == [] and count == 0


def test_sequences_of_known_shapes_are_compiled_ahead_and_saved(rng, tmp_path):
    compiled = tcopt.compile(model_of(SHIFTED), shapes={"s": [[2], [4]]}, workers=0)
    assert [spec.name for spec in compiled.program.inputs] == ["s[0]", "s[1]", "x"]
    compiled.save(tmp_path / "m.tcm")
    loaded = tcopt.load(tmp_path / "m.tcm")
    assert (loaded.inputs, loaded.outputs) == (compiled.inputs, compiled.outputs)
    feeds = {"s": arrays(rng, (2,), (4,)), "x": np.ones(3, np.float32)}
    check(loaded.run(feeds), compiled.run(feeds))
    with pytest.raises(InputError, match="has 1 tensor, the model was compiled for 2 tensors"):
        loaded.run({"s": feeds["s"][:1], "x": feeds["x"]})
    with pytest.raises(InputError, match=r'got shape \[3\] for input "s\[1\]"'):
        loaded.run({"s": arrays(rng, (2,), (3,)), "x": feeds["x"]})


@pytest.mark.parametrize("given", [None, (4,)])
def test_optionals(given: tuple[int, ...] | None, rng):
    """Whether there is an element is known when the model is specialised."""
    text = """either (optional(float[n]) o, float[4] x) => (float[n] y, optional(float[n]) p) {
        p = Identity(o)
        there = OptionalHasElement(o)
        y = If (there) <then_branch = t () => (float[n] a) { a = OptionalGetElement(o) },
                        else_branch = e () => (float[n] b) { b = Neg(x) }>
    }"""
    model = helper.make_model(
        model_of(text).graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    compiled = tcopt.compile(model, workers=0)
    (x,) = arrays(rng, (4,))
    feed = None if given is None else x + 1
    y, p = compiled.run({"o": feed, "x": x})
    np.testing.assert_array_equal(y, -x if feed is None else feed)
    assert (p is None) == (feed is None)


def test_sequences_go_through_stages(rng):
    """A value with a data-dependent shape may be in a sequence and be used after it."""
    model = model_of(
        """staged (seq(float[n]) s, float[90] x)
            => (seq(float[m]) t, int64[1, k] places, seq(float[n]) u) {
        zero = Constant<value_int = 0>()
        first = SequenceAt(s, zero)
        half = Constant<value_float = 0.5>()
        big = Greater(x, half)
        some = Compress(x, big)
        pair = SequenceConstruct(first, some)
        places = NonZero(big)
        t = SequenceInsert(pair, x)
        u = SequenceConstruct(first, first)
    }"""
    )
    compiled = tcopt.compile(model, workers=0)
    for seed in (1, 2):
        x = np.random.default_rng(seed).uniform(0, 1, 90).astype(np.float32)
        (first,) = arrays(rng, (2,))
        t, places, u = compiled.run({"s": [first], "x": x})
        check(t, [first, x[x > 0.5], x])
        check(places, np.array(np.nonzero(x > 0.5)))
        check(u, [first, first])


def test_a_loop_that_collects_a_sequence():
    body = """<body = step (int64 i, bool c, seq(float) before) => (bool d, seq(float) after) {
        d = Identity(c)
        f = Cast<to = 1>(i)
        row = Mul(f, x)
        after = SequenceInsert(before, row)
    }>"""
    model = model_of(f"""collect (float[3] x, int64 steps) => (seq(float[n]) rows, float[m] all) {{
        yes = Constant<value = bool {{1}}>()
        none = SequenceEmpty()
        rows = Loop(steps, yes, none) {body}
        all = ConcatFromSequence<axis = 0>(rows)
    }}""")
    compiled = tcopt.compile(model, workers=0)
    x = np.arange(3, dtype=np.float32)
    for steps in (1, 4):
        rows, whole = compiled.run({"x": x, "steps": np.array(steps)})
        check(rows, [i * x for i in range(steps)])
        check(whole, np.concatenate(rows))
    with pytest.raises(UnsupportedError, match="Loop of more than 1024 iterations"):
        compiled.run({"x": x, "steps": np.array(5000)})


def test_what_is_given_is_checked(rng):
    compiled = tcopt.compile(model_of(SHIFTED), workers=0)
    (x,) = arrays(rng, (3,))
    with pytest.raises(InputError, match='"s" sequence of tensors, float32 of any shape'):
        compiled.run({"x": x})
    with pytest.raises(InputError, match="cannot be ndarray; give a list of arrays"):
        compiled.run({"s": x, "x": x})
    with pytest.raises(InputError, match=r'input "s\[1\]" has type int64'):
        compiled.run({"s": [x, np.ones(3, np.int64)], "x": x})
    with pytest.raises(MissingShapesError, match='"s" sequence of tensors') as caught:
        import_model(model_of(SHIFTED))
    assert 'shapes={"s": [[1, 3], [2, 3]]}' in (caught.value.hint or "")
    for shape, message in (
        ([3], "its shape cannot be"),
        (None, "cannot be None"),
        ([[2], None], "None is not a shape"),
    ):
        with pytest.raises(InputError, match=message):
            import_model(model_of(SHIFTED), shapes={"s": shape})
    with pytest.raises(InputError, match="is not a shape for input 'x', a tensor"):
        import_model(model_of(SHIFTED), shapes={"s": [], "x": [[3]]})
    report = check_model(model_of(SHIFTED))
    assert report.passed and report.summary is not None
    assert str(report.summary.inputs[0]) == '"s" sequence of tensors, float'
    assert report.trial_shapes == {"s": [(1,), (1,)]}


def test_the_backend_takes_lists_and_gives_them(rng):
    node = helper.make_node("SplitToSequence", ["x"], ["s"], axis=1)
    (x,) = arrays(rng, (2, 3))
    (parts,) = Backend.run_node(node, [x])
    check(parts, [x[:, i : i + 1] for i in range(3)])
    rep = Backend.prepare(model_of(SHIFTED))
    shifted, _ = rep.run([[[1.0, 2.0]], np.ones(3, np.float32)][:0] or [[x[0]], x[1]])
    check(shifted, [2 * x[0], x[1]])


def test_tools_give_sequences_by_their_tensors(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    model = model_of("""parts (float[2, 3] x) => (seq(float[2, n]) s)
        { s = SplitToSequence<axis = 1>(x) }""")
    onnx.save(model, str(path))
    assert tcopt_run.main([str(path), "--compare", "onnxruntime"]) == 0
    assert "s[2]: 2x1 float32" in capsys.readouterr().out
    onnx.save(model_of(SHIFTED), str(path))
    assert tcopt_run.main([str(path)]) == 1
    assert "run the model from Python" in capsys.readouterr().err
    assert tcopt_check.main([str(path)]) == 0
    assert "checked with    s: 2 tensors of 1 (" in capsys.readouterr().out


# Tests of hostile models.


def declared(type_: onnx.TypeProto) -> onnx.ModelProto:
    model = model_of("m (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.input[0].type.CopyFrom(type_)
    return model


def test_types_that_there_are_not():
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    nested = helper.make_sequence_type_proto(helper.make_sequence_type_proto(tensor))
    with pytest.raises(UnsupportedError, match="'x' is of type sequence of sequence of tensor"):
        import_model(declared(nested))
    deep = tensor
    for _ in range(50):
        deep = helper.make_optional_type_proto(deep)
    with pytest.raises(UnsupportedError, match="'x' is of type optional of optional of optional"):
        tcopt.compile(declared(deep))
    with pytest.raises(UnsupportedError, match="complex64"):
        import_model(
            declared(
                helper.make_sequence_type_proto(
                    helper.make_tensor_type_proto(TensorProto.COMPLEX64, None)
                )
            )
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(float[200000] x) => (seq(float[n]) y) { y = SplitToSequence(x) }", "200000 parts"),
        ("(float[4] x) => (seq(float[n]) y) { y = Relu(x) }", "declared as a sequence of tensors"),
        ("(seq(float) x) => (float[n] y) { y = Identity(x) }", "compute a sequence of 2 tensors"),
        ("(seq(float) x) => (float[n] y) { y = Relu(x) }", "y"),
        ("(seq(float) x) => (seq(int32) y) { y = Identity(x) }", "declared with i32 elements"),
    ],
)
def test_what_cannot_be(text: str, message: str):
    model = model_of(f"m {text}")
    shapes = {"x": [[2], [2]]} if "seq(float) x" in text else {}
    with pytest.raises(TcoptError, match=message):
        import_model(model, shapes=shapes)


def test_sequences_are_bounded_together():
    """A chain of insertions is a small file; each list is one longer than the one before."""
    chain = "\n".join(f"s{i + 1} = SequenceInsert(s{i}, x)" for i in range(99))
    model = model_of(f"m (float[2] x) => (seq(float) s99) {{ s0 = SequenceEmpty() {chain} }}")
    import_model(model)
    with pytest.raises(ImportModelError, match="the limit made-elements=1000"):
        import_model(model, limits=ModelLimits(made_elements=1000))
    shapes = {"s": [[1]] * 20, "x": [3]}
    with pytest.raises(InputError, match="raise the limit nodes=10"):
        import_model(model_of(SHIFTED), shapes=shapes, limits=ModelLimits(nodes=10))
    twice = model_of("m (seq(float) x, float[2] z) => (float[2] y) { y = Relu(z) }")
    twice.graph.input[1].name = "x[0]"
    with pytest.raises(ImportModelError, match=r"are both called 'x\[0\]'"):
        import_model(twice, shapes={"x": [[2]]})
