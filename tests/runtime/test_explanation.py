"""Explanations: remarks are assigned to kernels, with the right reasons."""

from __future__ import annotations

import json

import numpy as np
import pytest
from xdsl.parser import Parser

import tcopt
from models import convolutional
from models.network import Network
from tcopt.runtime import load
from tcopt.runtime.explanation import Explanation
from tcopt.runtime.profile import TimedKernel
from tcopt.support.errors import UnsupportedError
from tcopt.support.ir.origins import Origin
from tcopt.support.pipelines.running import new_context
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.support.remarks import Remark, collect_remarks
from tcopt.tools.explain_text import explanation_text


def call(kernel: str, *nodes: str, work: int = 10) -> TimedKernel:
    return TimedKernel(kernel, Origin(nodes, ("conv",), ("1x8xf32",), work), 64, True, "cpu-x")


def test_remarks_go_to_the_kernel_or_the_node_they_are_about():
    remarks = [
        Remark("cpu-x", "@f", "a", "scheduled"),
        Remark("cpu-y", "@f", "a", "too wide", missed=True),
        Remark("winograd", "graph.conv", 'b", "c', "F(4x4)"),
        Remark("fold", "graph.add", "gone", "folded"),
        Remark("cpu-x", "@ff", "c", "scheduled"),
    ]
    calls = [call("f", "a", work=30), call("f", "b"), call("g", "c", "d")]
    explanation = Explanation.of(calls, remarks)
    told = [[remark.message for remark in each.remarks] for each in explanation.calls]
    assert told == [
        ["scheduled", "too wide"],
        ["scheduled", "too wide", "F(4x4)"],
        ["F(4x4)"],
    ]
    assert [each.share for each in explanation.heaviest(0.5)] == [0.6]
    assert [remark.message for remark in explanation.others] == ["folded", "scheduled"]
    assert [r.message for r in explanation.calls[1].missed] == ["too wide"]
    text = explanation_text(explanation, share=0.5)
    assert text.startswith("1. a: 60.0% of the work, 30 operations")
    assert "not done   cpu-y: too wide" in text
    assert text.endswith("2 other kernel calls, each with less than 50% of the work")


def test_a_model_is_explained_with_every_rule_and_knob():
    model = tcopt.compile(convolutional.residual_net(16, 4), "cpu:haswell")
    explanation = model.explain()
    assert sum(each.share for each in explanation.calls) == pytest.approx(1)
    for each in explanation.calls:
        assert each.call.rule
        assert any(r.by == each.call.rule and r.message for r in each.choices)
    assert json.loads(json.dumps(explanation.as_json()))["calls"][0]["nodes"]


def test_what_cannot_be_explained(tmp_path):
    net = Network("open")
    x = net.input("x", ["n"])
    model = tcopt.compile(net.model(**{net.add("Relu", x): ["n"]}))
    with pytest.raises(UnsupportedError, match="shapes are open"):
        model.explain()
    (entry,) = model.explain({"x": np.zeros(3, np.float32)}).calls
    assert entry.call.origin.results == ("3xf32",)
    fixed = tcopt.compile(net.model(**{net.add("Relu", x): ["n"]}), shapes={"x": [4]})
    fixed.save(tmp_path / "m.tcm")
    with pytest.raises(UnsupportedError, match="a model that was loaded"):
        load(tmp_path / "m.tcm").explain()


T, FLAT = "tensor<1x8x4x4xf32>", "tensor<8x16xf32>"
UNFUSED = {
    "2 kernels read the result": f"""
        %1 = graph.softmax %0 {{axis = 1}} : {T}
        %2 = graph.softmax %0 {{axis = 2}} : {T}""",
    "it is not elementwise": f"""
        %1 = graph.transpose %0 {{perm = [0, 1, 3, 2]}} : {T}
        %2 = graph.neg %1 : {T}""",
    "there is a view in between": f"""
        %1 = graph.reshape %0 : {FLAT}
        %2 = graph.neg %1 : {FLAT}""",
    "read their operands from memory": f"""
        %1 = graph.neg %x : {T}
        %2 = graph.conv %1, %w : {T}""",
}


@pytest.mark.parametrize("reason", UNFUSED)
def test_why_operators_are_not_fused(reason):
    body = UNFUSED[reason]
    result = FLAT if FLAT in body else T
    text = f"""func.func @main(%x: {T}, %w: tensor<8x8x1x1xf32>) -> {result} {{
        %0 = graph.conv %x, %w : {T}{body}
        func.return %2 : {result}
    }}"""
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    with collect_remarks() as remarks:
        for each in parse_pipeline("fuse-ops"):
            each.apply(context, module)
    assert all(r.by == "fuse-ops" for r in remarks)
    assert any(reason in r.message for r in remarks if r.missed), [str(r) for r in remarks]
