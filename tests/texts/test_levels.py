"""Whole programs at every level of a compile round-trip through text."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException, ParseError

from checks.same_module import difference
from fuzz.corpus import lit_cases
from models.convolutional import residual_net
from models.transformers import bert_block
from networks.random_graphs import networks
from programs.te_programs import programs
from running.examples import examples
from tcopt.compiler.pipeline import pipeline
from tcopt.frontends.onnx.importer import import_model
from tcopt.support.errors import TcoptError
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.running import new_context
from tcopt.support.pipelines.text import make_passes, parse_pipeline
from tcopt.tools.passes.driver import PrintOptions, print_module
from texts.samples import parse

FORMS = (PrintOptions(), PrintOptions(generic=True))


def check(module: ModuleOp, what: str) -> None:
    """Check that the module is valid and its texts round-trip."""
    verify(module)
    for form in FORMS:
        text = print_module(module, form)
        again = parse(text)
        assert (found := difference(module, again)) is None, f"{what}: {found}"
        assert print_module(again, form) == text, what


def check_levels(module: ModuleOp, target: str, context: Context) -> None:
    """Check the texts after each phase of a target's pipeline."""
    check(module, "import")
    for phase in pipeline(target):
        for each in make_passes(phase.passes):
            each.apply(context, module)
        check(module, phase.name)


@pytest.mark.nightly
def test_lit_texts() -> None:
    checked = 0
    for text in lit_cases():
        try:
            module = parse(text)
            verify(module)
        except (ParseError, DiagnosticException, TcoptError):
            continue
        check(module, text)
        checked += 1
    assert checked > 300


@pytest.mark.nightly
@pytest.mark.parametrize(
    "target", ["cpu:haswell", "cpu:skylake-avx512", "cuda:sm_80", "opencl:mali"]
)
def test_networks(target: str) -> None:
    check_levels(import_model(residual_net(8, 8)), target, new_context())


@pytest.mark.nightly
def test_a_transformer() -> None:
    check_levels(
        import_model(bert_block(tokens=4, width=16, heads=2)), "cpu:haswell", new_context()
    )


@pytest.mark.nightly
@settings(max_examples=examples(3), suppress_health_check=list(HealthCheck))
@given(case=networks())
def test_random_graphs(case: tuple[ModuleOp, object]) -> None:
    module, _ = case
    check_levels(module, "cpu:haswell", new_context())


@settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_expressions(program: tuple[object, ...]) -> None:
    function = program[0]
    module = ModuleOp([function.clone()])  # type: ignore[attr-defined]
    check(module, "te")
    for each in parse_pipeline("te-inline,merge-axes,lower-te-to-loop,lower-blocks"):
        each.apply(new_context(), module)
        check(module, each.name)
