"""Names in a model never become code: whatever they contain, the same program is generated.

A model has names in every position that ONNX allows. Its compiled text differs from that of the
same model with plain names only in comments and variable names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper, numpy_helper
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.printer import Printer

import tcopt
from machines.opencl_device import needs_device
from running.examples import examples
from tcopt.backends.identifiers import comment, distinct, identifier
from tcopt.backends.llvm.emit.names import entry_symbol, external_symbol, global_symbol, symbol_of
from tcopt.backends.llvm.jit import compile_module, external_names
from tcopt.backends.llvm.module import emit_module
from tcopt.backends.opencl.emit.names import kernel_name, variable
from tcopt.backends.ptx.names import entry_name
from tcopt.compiler import lower, pipeline
from tcopt.compiler.passes import shared_context
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import TcoptError, UnsupportedError
from tcopt.support.syntax.parsing import TextParser

TOKEN = "INJECTED"
NASTY = (
    f"\n#error {TOKEN}\n//",
    f"*/ {TOKEN}; /*",
    f'"{TOKEN}"',
    f"\\{TOKEN}\\",
    f"\\\n{TOKEN}",
    f"??/\n{TOKEN}",
    f"\r{TOKEN}\x0c\x0b{TOKEN}\u2028{TOKEN}\u2029{TOKEN}\x85{TOKEN}",
    "\x00\x01",
    "é✓\U0001f600",
    "../../../../tmp/x",
    "x" * 3000,
    "%x = call i32 @system()",
    '@"f"() {',
    "double",
    "float4",
    "get_global_id",
    "NAN",
    "fma",
    "\ufeff\u202e",
    "\x1b]0;title\x07",
    "[red]x[/red]",
    "",
    " ",
    "${HOME}`id`$(id)",
)
pieces = st.sampled_from(NASTY) | st.text(max_size=8)
texts = st.lists(pieces, max_size=3).map("".join).filter(lambda s: max(s, default=" ") < "\ud800")


def model_named(text: str) -> ModelProto:
    """A product, a softmax and an exponential, with a name in every position that ONNX allows."""

    def name(role: str) -> str:
        return f"{role}{text}{role}"

    nodes = [
        helper.make_node("MatMul", [name("x"), name("w")], [name("m")], name=name("node")),
        helper.make_node("Softmax", [name("m")], [name("s")], name=name("soft"), axis=1),
        helper.make_node("Exp", [name("s")], [name("y")], name=name("exp")),
    ]
    for node in nodes:
        node.doc_string = name("doc")
        node.metadata_props.add(key=name("key"), value=name("value"))
    infos = [
        helper.make_tensor_value_info(name("x"), 1, [name("dim"), 16], doc_string=name("doc")),
        helper.make_tensor_value_info(name("y"), 1, [name("dim"), 24]),
    ]
    weight = np.linspace(-1, 1, 16 * 24, dtype=np.float32).reshape(16, 24)
    graph = helper.make_graph(
        nodes,
        name("graph"),
        infos[:1],
        infos[1:],
        [numpy_helper.from_array(weight, name("w"))],
        doc_string=name("doc"),
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
        producer_name=name("producer"),
        doc_string=name("doc"),
        domain=name("domain"),
    )
    helper.set_model_props(model, {name("key"): name("value")})
    return model


def compiled(text: str, target: str) -> tcopt.Model:
    shapes = {f"x{text}x": [4, 16]}
    return tcopt.compile(model_named(text), target, cache=False, shapes=shapes, workers=0)


def words(source: str) -> set[str]:
    """Return the tokens of code without comments."""
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r"//.*", "", source)))


_plain: dict[str, tcopt.Model] = {}


def plain(target: str) -> tcopt.Model:
    if target not in _plain:
        _plain[target] = compiled("plain", target)
    return _plain[target]


@pytest.mark.nightly
@settings(max_examples=examples(6))
@given(texts)
@example("".join(NASTY[:8]))
def test_machine_code_is_the_same(text):
    assert compiled(text, "cpu").program.objects == plain("cpu").program.objects


@pytest.mark.nightly
@settings(max_examples=examples(4))
@given(texts)
@example("".join(NASTY[:8]))
def test_ptx_is_the_same(text):
    made = [source.text for source in compiled(text, "cuda:sm_80").program.sources]
    assert made == [source.text for source in plain("cuda:sm_80").program.sources]


@pytest.mark.nightly
@settings(max_examples=examples(10))
@given(texts)
@example("".join(NASTY[:8]))
@example("float4")
def test_opencl_has_names_as_variables_alone(text):
    made = compiled(text, "opencl").program.source
    for mark in ("__kernel", "{", "for (", "#"):
        known = re.sub(r"//.*", "", plain("opencl").program.source)
        assert re.sub(r"//.*", "", made).count(mark) == known.count(mark)
    assert not words(made) & {TOKEN, "error", "system", "call", "HOME", "title", "red"}
    assert made.isascii() and not set(made) & set(map(chr, (*range(10), *range(11, 32), 127)))
    for line in made.splitlines():
        assert TOKEN not in line.split("//")[0].split() and not line.endswith("\\")


@pytest.mark.nightly
@needs_device
@pytest.mark.parametrize("text", [*NASTY[:8], *NASTY[13:18]])
def test_opencl_compiles(text):
    feeds = {f"x{text}x": np.ones((4, 16), np.float32)}
    (result,) = compiled(text, "opencl").run(feeds)
    expected = plain("cpu").run({"xplainx": np.ones((4, 16), np.float32)})[0]
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.nightly
@settings(max_examples=examples(2))
@given(texts)
@example("".join(NASTY))
def test_text_of_each_level_parses_back(text):
    phases = pipeline("opencl")
    module = import_model(model_named(text), shapes={f"x{text}x": (4, 16)})
    for some in ([], phases[1:3], phases[3:5]):
        lower(module, some)
        for generic, places in ((False, False), (True, True), (False, True)):
            shown = printed(module, generic, places)
            assert printed(parse(shown), generic, places) == shown


def printed(module: ModuleOp, generic: bool, places: bool) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic, print_debuginfo=places).print_op(module)
    return stream.getvalue()


def parse(text: str) -> ModuleOp:
    return TextParser(shared_context(), text).parse_module()


def test_external_data_is_read_from_the_model_s_folder_alone(tmp_path: Path):
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(16 * 24 * 4))
    folder = tmp_path / "model"
    folder.mkdir()
    for place in ("../secret.bin", str(secret), "a/../../secret.bin", "\x00", "\n", "x" * 5000, ""):
        model = model_named("")
        (weight,) = model.graph.initializer
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=place)
        path = folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        with pytest.raises(TcoptError):
            tcopt.compile(path, cache=False, shapes={"xx": [4, 16]})


# The content of the kernel cache.


@pytest.mark.parametrize("target", ["cpu", "opencl", "cuda:sm_80"])
def test_models_that_differ_in_names_alone_do_not_see_each_other_s(target, tmp_path, monkeypatch):
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))

    def of(name: str) -> tuple[object, int]:
        shapes = {f"x{name}x": [4, 16]}
        program = tcopt.compile(model_named(name), target, shapes=shapes, workers=0).program
        code = program.objects if target == "cpu" else program.source
        return code, program.kernels_compiled

    first, made = of("FIRSTNAME")
    kept = [path.read_bytes() for path in (tmp_path / "cache").rglob("*.kernel")]
    second, again = of("OTHERNAME")
    assert made and b"".join(kept)
    assert "FIRSTNAME" not in str(second)
    if target == "opencl":
        assert "FIRSTNAME" in str(first) and "OTHERNAME" in str(second) and again == made
    else:
        assert not any(b"FIRSTNAME" in data for data in kept)
        assert second == first and again == 0
    assert of("FIRSTNAME") == (first, 0)


# Tests of the code writers.

WRITERS: dict[str, tuple[Callable[[str], str], str]] = {
    "LLVM": (symbol_of, r"tcopt\.[A-Za-z_]\w*"),
    "entry": (entry_symbol, r"tcopt_\w+"),
    "global": (global_symbol, r"tcopt\.global\.[A-Za-z_]\w*"),
    "PTX": (entry_name, r"[A-Za-z]\w*"),
    "OpenCL": (kernel_name, r"[A-Za-z_]\w*"),
}


@pytest.mark.parametrize("language", WRITERS)
@given(one=texts, other=texts)
def test_names_are_words_and_differ(language, one, other):
    write, form = WRITERS[language]
    for text in (one, other, write(one), write(other).removeprefix("tcopt.")):
        assert re.fullmatch(form, write(text), re.ASCII) and len(write(text)) < 200
    assert (write(one) == write(other)) == (one == other)


@given(texts)
def test_comments_and_variables_are_harmless(text):
    shown = comment(text)
    assert shown.isascii() and shown.isprintable() and len(shown) < 3000
    assert not re.search(r"\\|\?\?|\*/|/\*", shown)
    assert re.fullmatch(r"[A-Za-z_]\w*", variable(text), re.ASCII)
    assert not re.fullmatch(r"[A-Z0-9_]+|__\w*|\w+_t|float\d+", variable(text))


@pytest.mark.parametrize("plain", ["main", "conv_add_3", "_x", "A"])
def test_plain_names_stay(plain):
    assert identifier(plain) == distinct(plain) == plain


@settings(max_examples=examples(10))
@given(texts.filter(lambda text: text and "\x00" not in text))
def test_llvm_and_assembly_of_any_names(text):
    """A module with a function, a kernel and a constant with hostile names runs."""
    module = parse("""
      "memref.global"() <{sym_name = "c", type = memref<1xf32>, constant,
        initial_value = dense<2.0> : tensor<1xf32>, sym_visibility = "private"}> : () -> ()
      func.func private @k(%out: memref<1xf32>) {
        %c = "memref.get_global"() <{name = @c}> : () -> memref<1xf32>
        %i = arith.constant 0 : index
        %v = memref.load %c[%i] : memref<1xf32>
        memref.store %v, %out[%i] : memref<1xf32>
        func.return
      }
      func.func @main(%out: memref<1xf32>) {
        func.call @k(%out) : (memref<1xf32>) -> ()
        func.return
      }""")
    for op in module.walk():
        if isinstance(op, (func.FuncOp, memref.GlobalOp)):
            op.sym_name = StringAttr(op.sym_name.data + text)
        elif isinstance(op, func.CallOp):
            op.properties["callee"] = type(op.callee)("k" + text)
        elif isinstance(op, memref.GetGlobalOp):
            op.properties["name"] = type(op.name_)("c" + text)
    code = emit_module(module)
    llvm.parse_assembly(code).verify()
    assert external_names(code) == set()
    out = np.zeros(1, np.float32)
    compile_module(module).function("main" + text)(out)
    assert out[0] == 2


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a(b", "1a", "\n", "é"])
def test_functions_from_elsewhere_have_names_of_c(name):
    with pytest.raises(UnsupportedError, match="cannot be called"):
        external_symbol(name)
    assert external_symbol("expf") == "expf"
