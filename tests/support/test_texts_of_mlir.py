"""Texts and pipelines in mlir-opt's syntax, and parse errors."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.utils.exceptions import ParseError, VerifyException

from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.support.errors import ParsingError, VerificationError
from tcopt.support.pipelines.pass_specs import passes_text
from tcopt.support.pipelines.running import new_context
from tcopt.support.pipelines.text import parse_specs
from tcopt.support.syntax.parsing import LocatedParser
from tcopt.tools.passes.dense_resources import resolve_resources
from tcopt.tools.passes.driver import InputText, PrintOptions, print_module

RESOURCE = """builtin.module {
  %%c = arith.constant dense_resource<w0> : tensor<%s>
}
{-#
  dialect_resources: { builtin: { w0: "0x040000000000803F000000400000404000008040" } }
#-}
"""


def parsed(text: str):
    context = new_context()
    module = LocatedParser(context, text, "t.mlir").parse_module()
    resolve_resources(context, module)
    return module


def test_resources_become_literals():
    module = parsed(RESOURCE % "2x2xf32")
    (constant,) = module.ops
    value = constant.properties["value"]
    assert isinstance(value, DenseIntOrFPElementsAttr)
    np.testing.assert_array_equal(value.get_values(), [1, 2, 3, 4])
    assert parsed(print_module(module)).is_structurally_equivalent(module)


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("op", ["arith.constant", "graph.constant"])
def test_resources_are_printed_as_such(op: str, generic: bool):
    text = RESOURCE.replace("arith.constant", op) % "2x2xf32"
    source = InputText("t.mlir", text.encode(), "mlir")
    options = PrintOptions(generic)
    printed = print_module(source.parse(new_context(), options.resources), options)
    assert printed.count("dense_resource<w0>") == 1
    assert printed.count('w0: "0x040000000000803F000000400000404000008040"') == 1
    again = parsed(printed)
    assert again.is_structurally_equivalent(parsed(text))
    # A literal of other values is not changed.
    assert "resource" not in print_module(parsed("builtin.module {}"), options)


GENERIC = (
    '"graph.constant"() {value = dense_resource<w0> : tensor<2x2xf32>} : () -> tensor<2x2xf32>'
)


@pytest.mark.parametrize("op", [GENERIC, "graph.constant dense_resource<w0> : tensor<2x2xf32>"])
def test_weights_of_a_graph_are_given_as_resources(op: str):
    module = parsed(RESOURCE.replace("arith.constant dense_resource<w0> : tensor<%s>", op) % ())
    module.verify()
    (constant,) = module.ops
    assert isinstance(constant, ConstantOp) and constant.literal_value is not None
    np.testing.assert_array_equal(constant.literal_value, [[1, 2], [3, 4]])


def test_weights_whose_resource_is_missing_are_refused():
    with pytest.raises(VerifyException, match="dense_resource"):
        parsed(f"builtin.module {{\n  %c = {GENERIC}\n}}").verify()


def test_resources_of_another_size_are_refused():
    with pytest.raises(VerificationError, match="w0"):
        parsed(RESOURCE % "3x2xf32")


def test_location_aliases_after_their_uses():
    module = parsed("""builtin.module {
      %1 = arith.constant 1.0 : f32 loc(#loc2)
    } loc(#loc)
#loc = loc("m.mlir":0:0)
#loc1 = loc("m.mlir":2:10)
#loc2 = loc("name"(#loc1))
""")
    text = print_module(module, PrintOptions(locations=True))
    assert '"m.mlir":2:10' in text and '"name"' in text


@pytest.mark.parametrize("uses", ["#a = loc(#a)", "#b = loc(unknown)"])
def test_aliases_without_a_definition_are_refused(uses: str):
    with pytest.raises(ParseError):
        parsed(f"builtin.module {{\n}} loc(#a)\n{uses}\n")


def test_names_that_are_not_ascii_are_refused():
    with pytest.raises(ParseError) as caught:
        parsed("builtin.module {\n  %é = arith.constant 1.0 : f32\n}")
    assert "'%'" in str(caught.value) and "first_char" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("%1 = graph.relu %x : tensor<4xf32 // no bracket\n%2 = graph.relu %1", (2, 34)),
        ("%1 = graph.relu\n%2 = graph.relu %1", (3, 1)),
        ('"test.op"(%x\n%2 = graph.relu %x', (2, 13)),
        ("%1 = graph.relu %x tensor<4xf32>", (2, 20)),
    ],
)
def test_missing_punctuation_is_reported_where_it_is_missing(text: str, place: tuple[int, int]):
    function = f"func.func @main(%x: tensor<4xf32>) {{\n{text}\n}}"
    with pytest.raises(ParseError) as caught:
        parsed(function)
    span = caught.value.span
    before = function[: span.start]
    assert (before.count("\n") + 1, span.start - before.rfind("\n")) == place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("builtin.module(a, b{x=1})", "a,b{x=1}"),
        ("a{x=-5 y=-2.5e-3,-1}", "a{x=-5 y=-0.0025,-1}"),
        ('a{x="=-5, -3"}', 'a{x="=-5, -3"}'),
    ],
)
def test_pipelines(text: str, expected: str):
    specs = parse_specs(text)
    assert passes_text(specs) == expected
    assert parse_specs(passes_text(specs)) == specs


def test_other_anchors_are_refused():
    with pytest.raises(ParsingError) as caught:
        parse_specs("builtin.module(func.func(a))")
    assert "module" in (caught.value.hint or "")
