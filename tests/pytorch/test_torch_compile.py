"""`torch.compile(model, backend="tcopt")`: graphs of Dynamo as compiled programs."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tcopt.torch
from tcopt.torch import FallbackWarning

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")
nn = torch.nn
Tensor = Any


@pytest.fixture(autouse=True)
def errors_of_fallbacks() -> Iterator[None]:
    """Start each test without Dynamo's graphs; fallbacks are errors unless expected."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error", FallbackWarning)
        yield


def compiled(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(model, backend=tcopt.torch.backend, fullgraph=True, **options)


def close(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_results_are_those_of_eager() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()).eval()
    x = torch.randn(2, 3, 6, 6)
    assert close(compiled(model)(x), model(x))


def test_one_program_serves_sizes() -> None:
    model = nn.Linear(6, 3)
    run = compiled(model, dynamic=True)
    for batch in (2, 5, 3):
        x = torch.randn(batch, 6)
        assert close(run(x), model(x))


def test_changed_parameters_are_compiled_again() -> None:
    model = nn.Linear(6, 3)
    run, x = compiled(model), torch.randn(2, 6)
    first = run(x)
    model.weight.mul_(2)
    assert close(run(x), model(x)) and not close(run(x), first)
    model.bias.data = torch.ones(3)
    assert close(run(x), model(x))


def test_modules_of_one_structure_have_their_own_parameters() -> None:
    def apply(layer: Callable[..., Any], x: Tensor) -> Tensor:
        return layer(x)

    run, x = compiled(apply), torch.randn(2, 6)
    for layer in (nn.Linear(6, 6), nn.Linear(6, 6)):
        assert close(run(layer, x), layer(x))


class Counter(nn.Module):
    """Overwrites a buffer and its input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.total: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.total += x
        x.mul_(2)
        return self.total * 3


def test_buffers_and_inputs_are_updated() -> None:
    model = Counter()
    eager, run = copy.deepcopy(model), compiled(model)
    for _ in range(3):
        x = torch.randn(3)
        other = x.clone()
        assert close(run(x), eager(other))
        assert close(x, other) and close(model.total, eager.total)


def test_gradients_fall_back_to_eager() -> None:
    model = nn.Linear(6, 3)
    with torch.enable_grad(), pytest.warns(FallbackWarning, match="gradient"):
        y = compiled(model)(torch.randn(2, 6))
    assert y.requires_grad


def test_operators_without_a_compiled_form_fall_back_to_eager() -> None:
    x = torch.randn(3, 3)
    with pytest.warns(FallbackWarning, match="linalg_eig"):
        found = compiled(torch.linalg.eigvals)(x)
    assert torch.equal(found, torch.linalg.eigvals(x))


def test_graph_breaks_are_reported() -> None:
    def split(x: Tensor) -> Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    x = torch.randn(3)
    with pytest.warns(FallbackWarning, match="split"):
        found = torch.compile(split, backend=tcopt.torch.backend)(x)
    assert close(found, (x + 1) * 2)
