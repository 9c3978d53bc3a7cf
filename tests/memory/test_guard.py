"""A seeded sample of `make guard`, and checks that the harness detects faults."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

import tcopt
from conformance.cases import passing_cases, set_home
from memory.children import run_all
from memory.guard_pages import PAGE, GuardedBuffer, GuardError, run_guarded
from memory.guarded_cases import guarded_case, is_indexing, mutated_case, node_cases
from running.examples import examples
from tcopt.runtime.program import Program

CASES = examples(45)
FEEDS = examples(60)


@pytest.fixture(autouse=True, scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory) -> None:
    set_home(tmp_path_factory.mktemp("onnx"))


def _part(names: list[str], count: int) -> list[str]:
    """Return an evenly spread sample, the same in every run."""
    rng = np.random.default_rng(1)
    return sorted(rng.choice(names, min(count, len(names)), replace=False).tolist())


def _findings(names: list[str], work: Callable[[str], str | None]) -> dict[str, str]:
    outcomes = run_all(names, work)
    assert len(outcomes) == len(names)
    return {name: outcome for name, outcome in outcomes.items() if outcome is not None}


def test_cases_between_guard_pages() -> None:
    nodes = [name for name in passing_cases() if name in node_cases()]
    assert not _findings(_part(nodes, CASES), guarded_case)


def test_changed_feeds_between_guard_pages() -> None:
    names = [name for name in node_cases() if is_indexing(name)]
    assert not _findings([f"{name}#7" for name in _part(names, FEEDS)], mutated_case)


def _touch(what: str) -> str | None:
    """Read or write a byte in or next to a buffer of ten."""
    access, side, place = what.split()
    buffer = GuardedBuffer(10, side, 1)
    if access == "write-input":
        buffer.make_read_only()
    memory = (ctypes.c_uint8 * (3 * PAGE)).from_address(buffer.address - PAGE)
    if access == "read":
        return None if memory[PAGE + int(place)] == 0 else "another byte"
    memory[PAGE + int(place)] = 1
    return None if buffer.is_clean() else "beside"


def test_what_leaves_a_buffer_is_seen() -> None:
    crash = "ends its process by SIGSEGV"
    wanted = {
        "read upper 10": crash,
        "read lower -1": crash,
        "write upper 10": crash,
        "write lower -1": crash,
        "write-input upper 3": crash,
        "write upper -1": "beside",
        "write lower 10": "beside",
        "write upper 9": None,
        "write lower 0": None,
        "read upper 9": None,
        "read lower 0": None,
    }
    assert run_all(list(wanted), _touch) == wanted


class _Nothing:
    """Code that does nothing."""

    threads = 1

    def __call__(self, arguments: object, control: object) -> None: ...


class _Forgetful(Program):
    @property
    def entry(self) -> Any:
        return _Nothing()


def test_an_output_that_is_not_written_is_seen() -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[3] x) => (float[3] y) { y = Exp(x) }'
    program = tcopt.compile(onnx.parser.parse_model(text)).program
    assert isinstance(program, Program)
    x = np.zeros(3, np.float32)
    assert run_guarded(program, [x])[0].tolist() == [1, 1, 1]
    program.__class__ = _Forgetful
    with pytest.raises(GuardError, match='element 0 of "y"'):
        run_guarded(program, [x])
