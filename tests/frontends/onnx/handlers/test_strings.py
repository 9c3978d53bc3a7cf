"""String tensors: against onnxruntime, in saved models, and with hostile content."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcopt
from models.checks import run_reference
from tcopt.frontends.onnx import import_model
from tcopt.interpreters.graph import run_module
from tcopt.interpreters.host_calls import module_strings
from tcopt.support.data.strings import StringTable, strings_in
from tcopt.support.errors import (
    ImportModelError,
    InputError,
    ResourceError,
    TcoptError,
    UnsupportedError,
)
from tcopt.tools import tcopt_run


def texts(*items: object) -> np.ndarray:
    return np.array(items, object)


WORDS = texts("a", "bb", "", "é☃", "bb", "a\0c")
NUMBERS = texts("1", "2.5", "-3", "4e3", "INF", "200")
FLAGS = np.array([1, 0, 1, 0, 1, 0], bool)


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\ng {text}')


def same(actual: object, expected: object) -> None:
    if isinstance(expected, list):
        assert isinstance(actual, list) and len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            same(ours, theirs)
        return
    ours, theirs = np.asarray(actual), np.asarray(expected)
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


LOOP = """(string[6] x) => (string[6] y, string[n, 6] z)
    <string s = {{"q"}}, int64 n = {{{steps}}}> {{
    y, z = Loop(n, , x) <body = b (int64 i, bool c, string[6] a)
        => (bool d, string[6] e, string[6] f) {{ d = Identity(c) e = StringConcat(a, s)
        f = Identity(a) }}> }}"""
CHOICE = """(string[6] x, bool b) => (string[6] y) <string s = {"q"}> { y = If(b) <
    then_branch = t () => (string[6] a) { a = Identity(x) },
    else_branch = e () => (string[6] a) { a = StringConcat(x, s) }> }"""
CASES = {
    "identity": ("(string[6] x) => (string[6] y) { y = Identity(x) }", {}),
    "gather": (
        "(string[6] x, int64[3] i) => (string[3] y) { y = Gather(x, i) }",
        {"i": np.array([5, 3, -1])},
    ),
    "reshape": (
        "(string[6] x) => (string[a, b] y, string[b, a] z) <int64[2] s = {2, 3}> "
        "{ y = Reshape(x, s) z = Transpose(y) }",
        {},
    ),
    "concat": (
        '(string[6] x) => (string[n] y) <string[2] s = {"q", "bb"}> '
        "{ y = Concat<axis = 0>(x, s, x) }",
        {},
    ),
    "where": (
        '(string[6] x, bool[6] c) => (string[6] y) <string s = {"q"}> { y = Where(c, x, s) }',
        {"c": FLAGS},
    ),
    "equal": (
        '(string[6] x) => (bool[6] y) <string s = {"bb"}> { y = Equal(x, s) }',
        {},
    ),
    "split": (
        "(string[6] x) => (string[3] y, string[3] z) "
        "{ a, b = Split<axis = 0, num_outputs = 2>(x) y = Identity(a) z = StringConcat(b, a) }",
        {},
    ),
    "unique": (
        "(string[6] x) => (string[n] y, int64[n] i, int64[6] j, int64[n] c) "
        "{ y, i, j, c = Unique(x) }",
        {},
    ),
    "unique in order": ("(string[6] x) => (string[n] y) { y = Unique<sorted = 0>(x) }", {}),
    "compress": ("(string[6] x, bool[6] c) => (string[n] y) { y = Compress(x, c) }", {"c": FLAGS}),
    "scatter": (
        '(string[6] x, int64[2] i) => (string[6] y) <string[2] u = {"new", "zz"}> '
        "{ y = ScatterElements(x, i, u) }",
        {"i": np.array([3, 0])},
    ),
    "constant": (
        '(string[6] x) => (string[2] y) { y = Constant<value_strings = ["k", "é"]>() }',
        {},
    ),
    "if": (CHOICE, {"b": np.array(False)}),
    "loop written out": (LOOP.format(steps=3), {}),
    "loop": (LOOP.format(steps=20), {}),
    "sequence": (
        "(string[6] x) => (string[n] y) { s = SequenceConstruct(x, x) t = StringConcat(x, x) "
        "u = SequenceInsert(s, t) y = ConcatFromSequence<axis = 0>(u) }",
        {},
    ),
    "sequence of parts": ("(string[6] x) => (seq(string[n]) y) { y = SplitToSequence(x) }", {}),
    "to numbers": (
        "(string[6] x) => (float[6] y, double[6] z, float16[6] h) "
        "{ y = Cast<to = 1>(x) z = Cast<to = 11>(x) h = Cast<to = 10>(x) }",
        {"x": NUMBERS},
    ),
    "to integers": (
        "(string[6] x) => (uint8[6] y, int64[6] z, string[6] w) "
        "{ y = Cast<to = 2>(x) z = Cast<to = 7>(x) w = Cast<to = 8>(y) }",
        {"x": texts("1", " 2", "+3", "0", "255", "200")},
    ),
    "of numbers": (
        "(float[6] f, double[2] d, bool[6] c) => (string[6] x, string[2] y, string[6] z) "
        "{ x = Cast<to = 8>(f) y = Cast<to = 8>(d) z = Cast<to = 8>(c) }",
        {
            "x": None,
            "f": np.array([0.1, np.nan, -np.inf, 1e10, 123456789, -0.0], np.float32),
            "d": np.array([0.1, 1e300]),
            "c": FLAGS,
        },
    ),
    "patterns": (
        '(string[6] x) => (bool[6] y) { y = RegexFullMatch<pattern = "[a-b]{1,2}(c|é☃)?">(x) }',
        {},
    ),
    "parts": (
        '(string[6] x) => (string[6, n] y, int64[6] z) { y, z = StringSplit<delimiter = ",">(x) }',
        {"x": texts("a,b", "", ",", "a,,b", "a,", "é")},
    ),
    "parts between blanks": (
        "(string[3] x) => (string[3, n] y, string[3, n] z) "
        "{ y, c = StringSplit(x) z = StringConcat(y, y) }",
        {"x": texts(" a  b c", "", "q")},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name):
    text, feeds = CASES[name]
    feeds = {"x": WORDS, **feeds}
    feeds = {key: value for key, value in feeds.items() if value is not None}
    model = model_of(text)
    same(tcopt.compile(model).run(feeds), run_reference(model, feeds))


def test_sequences_of_strings():
    model = model_of("(seq(string[n]) x) => (string[k] y) { y = ConcatFromSequence<axis = 0>(x) }")
    compiled = tcopt.compile(model)
    for parts in ([["a", "é"], ["b"]], [["c"]]):
        (result,) = compiled.run({"x": [np.array(part) for part in parts]})
        same(result, np.concatenate([np.array(part, object) for part in parts]))


def test_one_program_for_all_strings():
    """The number of parts determines shapes; their content does not."""
    model = model_of("(string[2] x) => (string[2, n] y) { y, c = StringSplit(x) }")
    steps: list[str] = []
    compiled = tcopt.compile(model, cache=False, progress=lambda name, *_: steps.append(name))
    for words, wanted in ((("a b", "c"), 2), (("d", "e f"), 2), (("a", "b"), 1), (("", ""), 0)):
        (result,) = compiled.run({"x": list(words)})
        same(result[:, :1], texts(*(w.split()[:1] for w in words)).reshape(2, -1)[:, :wanted])
        assert result.shape == (2, wanted)
    # The first stage, and one later stage for each width.
    assert steps.count("import") == 1 + 3


def test_words_that_are_left_out():
    model = model_of(
        '(string[n] x) => (string[k] y) { y = StringNormalizer<case_change_action = "UPPER", '
        'stopwords = ["mon", "Tue"]>(x) }'
    )
    compiled = tcopt.compile(model)
    same(compiled.run({"x": ["Mon", "wed", "tue"]}), [texts("WED")])
    same(compiled.run({"x": ["mon", "tue"]}), [texts("")])


@pytest.mark.parametrize("lead", ["", "1, "])
def test_stop_words_leave_any_number(lead: str):
    """The number of remaining words does not matter: one program with one stage."""
    stops = ", ".join(f'"stop{number}"' for number in range(300))
    compiled = tcopt.compile(
        model_of(
            f"(string[{lead}4] x) => (string[{lead}k] y) "
            f"{{ y = StringNormalizer<is_case_sensitive = 1, stopwords = [{stops}]>(x) }}"
        )
    )
    for words in (["stop1"] * 4, ["stop299", "", "stop1", "STOP1"], ["a", "b", "stop300", "a"]):
        x = texts(*words).reshape((1, 4) if lead else 4)
        left = [word for word in words if f'"{word}"' not in stops] or [""]
        same(compiled.run({"x": x}), [texts(*left).reshape((1, -1) if lead else -1)])
        assert len(compiled.parts) == 1


def test_optionals_and_functions():
    text = """<ir_version: 10, opset_import: ["" : 20, "own" : 1]>
    g (optional(string[n]) x) => (string[n] y) { a = OptionalGetElement(x) y = own.twice(a) }
    <opset_import: ["" : 20], domain: "own"> twice (a) => (b) { b = StringConcat(a, a) }"""
    compiled = tcopt.compile(onnx.parser.parse_model(text))
    same(compiled.run({"x": ["é", ""]}), [texts("éé", "")])


def test_saved_models(tmp_path):
    text, _ = CASES["parts between blanks"]
    model = model_of('(string[2] x) => (string[2] y) <string s = {"é"}> { y = StringConcat(x, s) }')
    compiled = tcopt.compile(model)
    compiled.save(tmp_path / "model.tcm")
    loaded = tcopt.load(tmp_path / "model.tcm")
    assert str(loaded.inputs[0]) == '"x" string[2]'
    same(loaded.run({"x": ["a", "b"]}), [texts("aé", "bé")])
    with pytest.raises(UnsupportedError, match="'x' holds strings"):
        tcopt.export_kit(compiled, tmp_path / "kit")
    assert text


def test_devices_have_none():
    model = model_of("(string[2] x) => (string[2] y) { y = StringConcat(x, x) }")
    with pytest.raises(UnsupportedError, match="computed by the host"):
        tcopt.compile(model, "cuda:sm_80")
    with pytest.raises(UnsupportedError, match="not support strings"):
        tcopt.compile(model_of("(string[2] x) => (string[2] y) { y = Identity(x) }"), "cuda:sm_80")


@pytest.mark.parametrize("give", [list, np.array, lambda x: np.array(x, np.dtypes.StringDType())])
def test_forms_of_feeds(give):
    compiled = tcopt.compile(model_of("(string[2] x) => (string[2] y) { y = Identity(x) }"))
    same(compiled.run({"x": give(["é", "b" * 1000])}), [texts("é", "b" * 1000)])
    same(compiled.run({"x": np.array(["é".encode(), b""])}), [texts("é", "")])


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (texts("a", None), "None among its strings"),
        (texts("a", 1.5), "1.5 among its strings"),
        (np.array([b"\xff", b""]), "not UTF-8"),
        (texts("\ud800", "a"), "not Unicode text"),
        (np.zeros(2), "the model wants string"),
        (["a"], "got shape"),
        ("ab", "got shape"),
    ],
)
def test_feeds_that_are_refused(feed, message):
    compiled = tcopt.compile(model_of("(string[2] x) => (string[2] y) { y = StringConcat(x, x) }"))
    with pytest.raises(InputError, match=message):
        compiled.run({"x": feed})
    same(compiled.run({"x": ["a", "\0"]}), [texts("aa", "\0\0")])


def test_strings_that_grow_without_end():
    steps = " ".join(f"x{i} = StringConcat(x{i - 1}, x{i - 1})" for i in range(1, 40))
    model = model_of(f"(string x0) => (string y) {{ {steps} y = Identity(x39) }}")
    with pytest.raises(ResourceError, match="characters"):
        tcopt.compile(model).run({"x0": "abc"})


@pytest.mark.parametrize("text", ["abc", "1.5", "", "300", "-1"])
def test_numbers_that_are_none(text):
    compiled = tcopt.compile(model_of("(string[1] x) => (uint8[1] y) { y = Cast<to = 2>(x) }"))
    with pytest.raises(InputError, match=r"not a number|out of range"):
        compiled.run({"x": [text]})
    same(compiled.run({"x": ["7"]}), [np.array([7], np.uint8)])


def _with_weight(**fields: object) -> onnx.ModelProto:
    model = model_of('(string[2] x) => (string[2] y) <string[2] s = {"a", "b"}> '
                     "{ y = StringConcat(x, s) }")  # fmt: skip
    weight = model.graph.initializer[0]
    for name, value in fields.items():
        weight.ClearField("string_data")
        if name == "string_data":
            weight.string_data.extend(value)
        else:
            setattr(weight, name, value)
    return model


@pytest.mark.parametrize(
    "fields",
    [
        {"string_data": [b"\xff", b"a"]},
        {"string_data": [b"a"]},
        {"string_data": [b"a", b"b", b"c"]},
        {"raw_data": b"ab"},
        {"data_location": TensorProto.EXTERNAL},
    ],
)
def test_malformed_weights(fields):
    with pytest.raises(ImportModelError):
        import_model(_with_weight(**fields))


def test_malformed_patterns():
    for pattern in ("(", "a**", "[b", r"\1", "(?=a)", "a{2000}", "(a{1000}){1000}"):
        node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
        model = model_of("(string[2] x) => (bool[2] y) { y = Equal(x, x) }")
        model.graph.node[0].CopyFrom(node)
        with pytest.raises(TcoptError, match="pattern"):
            import_model(model)


def test_the_graph_level_computes_on_places():
    model = model_of('(string[2] x) => (string[2] y) <string s = {"é"}> { y = StringConcat(x, s) }')
    module = import_model(model, values={})
    table = module_strings(module)
    assert table.texts == ["", "é"]
    with strings_in(table):
        (places,) = run_module(module, [table.encode(texts("é", "q"))])
    same(table.decode(places), texts("éé", "qé"))


def test_tables():
    table = StringTable(["", "a"])
    own = table.fork()
    assert own.encode(texts("a", "new", "new")).tolist() == [1, 2, 2]
    assert own.decode(np.array([[2], [0]])).tolist() == [["new"], [""]]
    assert table.texts == ["", "a"] and own.texts == ["", "a", "new"]
    assert own.decode(np.array([-1, 99])).tolist() == ["", ""]
    with pytest.raises(InputError):
        StringTable(["a"])


@pytest.mark.parametrize("count", [1, 64, 65, 300])
def test_few_and_many_strings_are_decoded_alike(count: int):
    """Known, new and invalid indices, in arrays that are decoded one by one and as a whole."""
    own = StringTable(["", "a", "b"]).fork()
    words = ["b", "new", "", "a", "other"]
    given = texts(*(words[number % 5] for number in range(count)))
    places = own.encode(given)
    assert own.decode(places).tolist() == given.tolist()
    wild = np.resize(np.array([-1, 4, 2, 99, -(2**63), 2**63 - 1]), count)
    assert own.decode(wild).tolist() == [
        {4: "other" * (count > 4), 2: "b"}.get(p, "") for p in wild
    ]


def test_strings_of_numpys_own_type_are_taken_as_often_as_wanted():
    model = model_of("(string[n] x) => (string[n] y) { y = Identity(x) }")
    compiled = tcopt.compile(model)
    for given in (np.array(["a", "é"]), texts("a", "é"), np.array(["a", "", "é"])[::2]):
        for _ in range(2):
            same(compiled.run({"x": given})[0], texts("a", "é"))
    with pytest.raises(InputError, match="strings"):
        compiled.run({"x": texts("a", 3)})


def test_the_command_line(tmp_path, capsys):
    model = model_of('(string[2] x) => (string[2] y) <string s = {"é"}> { y = StringConcat(x, s) }')
    path, given = tmp_path / "model.onnx", tmp_path / "x.npy"
    onnx.save(model, path)
    np.save(given, np.array(["a", "b"]))
    arguments = [str(path), "--input", f"x=@{given}", "--compare", "onnxruntime"]
    assert tcopt_run.main([*arguments, "--output", str(tmp_path / "out.npz")]) == 0
    assert np.load(tmp_path / "out.npz")["y"].tolist() == ["aé", "bé"]
    assert tcopt_run.main([*arguments, "--expected-output", f"y=@{given}"]) == 1
    assert "y: 2 string" in capsys.readouterr().out


def test_weights_of_strings_round_trip():
    array = texts("é", "\0", "")
    tensor = numpy_helper.from_array(array, "s")
    model = model_of("(string[3] x) => (string[3] y) { y = Identity(s) }")
    model.graph.initializer.append(tensor)
    same(tcopt.compile(model).run({"x": array}), [array])
