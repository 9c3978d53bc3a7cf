"""Pipelines as data: text round trip, options, and added passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcopt.compiler import pipeline
from tcopt.compiler.pipeline import kernel_phases
from tcopt.support.errors import ParsingError
from tcopt.support.pipelines.pass_specs import PassSpec, passes_text, specs
from tcopt.support.pipelines.phases import Phase, configured, pipeline_text, with_passes
from tcopt.support.pipelines.text import parse_specs
from tcopt.support.registries.target_registry import target_named

_NAMES = st.from_regex(r"[a-z][a-z0-9]*(-[a-z0-9]+){0,2}", fullmatch=True)
_VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(-1e5, 1e5).map(lambda number: round(number, 3)),
    st.text(st.characters(codec="ascii", min_codepoint=32), max_size=8),
    st.sampled_from(["true", "cpu:haswell", "a , b", "{}", '"', "\\", "x86-64", "", "2d"]),
)
_OPTIONS = st.lists(
    st.tuples(_NAMES, st.lists(_VALUES, max_size=3).map(tuple)),
    max_size=3,
    unique_by=lambda o: o[0],
).map(tuple)


@given(st.lists(st.builds(PassSpec, _NAMES, _OPTIONS), max_size=4).map(tuple))
def test_text_reads_as_the_same_passes(passes: tuple[PassSpec, ...]) -> None:
    found = parse_specs(passes_text(passes))
    assert found == passes
    kinds = [[[type(v) for v in values] for _, values in each.options] for each in found]
    assert kinds == [[[type(v) for v in values] for _, values in p.options] for p in passes]


def test_a_phase_takes_text_or_passes() -> None:
    assert Phase("te", " te-inline , schedule{now=true}") == Phase(
        "te", specs("te-inline", PassSpec.of("schedule", now=True))
    )
    assert str(Phase("te", "a,b{x-y=1}")) == "te: a,b{x-y=1}"
    with pytest.raises(ParsingError, match="does not parse"):
        Phase("te", "a{")


def test_options_are_replaced_by_name_alone() -> None:
    """A pass whose name contains another's keeps its own options."""
    phases = [Phase("one", "pack,pack-dots{most=2 other=x},pack-dots")]
    changed = configured(phases, "pack-dots", most=3)
    assert pipeline_text(changed) == "pack,pack-dots{other=x most=3},pack-dots{most=3}"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("before:b", "a,new,b,c,new,b"),
        ("after:b", "a,b,new,c,b,new"),
        ("instead-of:b", "a,new,c,new"),
        ("before:first", "new,a,b,c,b"),
        ("after:second", "a,b,c,b,new"),
        ("instead-of:second", "a,b,new"),
    ],
)
def test_passes_are_added_by_place(place: str, text: str) -> None:
    phases = [Phase("first", "a,b"), Phase("second", "c,b")]
    assert pipeline_text(with_passes(phases, {place: specs("new")})) == text


@pytest.mark.parametrize("place", ["fuse-ops", "behind:fuse-ops", "after:", "after:fuse-opps"])
def test_places_that_are_none(place: str) -> None:
    with pytest.raises(ParsingError) as caught:
        with_passes(pipeline(), {place: specs("dce")})
    assert "did you mean 'fuse-ops'" in str(caught.value) or "before:NAME" in str(caught.value)


def test_kernels_are_spared_what_the_host_alone_needs() -> None:
    phases = target_named("cpu").timed_pipeline(pipeline())
    whole = {p.name for phase in phases for p in phase.passes}
    kernels = {p.name for phase in kernel_phases(phases) for p in phase.passes}
    assert {"plan-memory", "instrument"} <= whole
    assert not {"plan-memory", "instrument"} & kernels
    assert "lower-loop-to-kernel" in kernels
