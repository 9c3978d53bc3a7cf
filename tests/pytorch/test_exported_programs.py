"""`tcopt.torch.compile`: exported programs of PyTorch."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import tcopt.torch
from tcopt.support.errors import InputError, UnsupportedError

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")
nn, export = torch.nn, torch.export.export
Tensor = Any


class Branches(nn.Module):
    """Has arguments and results of many forms."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, pair: tuple[Tensor, int], *, scale: Tensor) -> dict[str, Any]:
        x, times = pair
        y = self.layer(x) * scale
        return {"y": y, "rest": [y[0], None, times, x.shape[0], x.shape[1]]}


MODULE = Branches()


@cache
def compiled() -> tcopt.torch.CompiledProgram:
    shapes = {"pair": ({0: torch.export.Dim("batch", min=1, max=8)}, None), "scale": None}
    arguments = ((torch.randn(4, 6), 3),)
    program = export(MODULE, arguments, {"scale": torch.ones(3)}, dynamic_shapes=shapes)
    return tcopt.torch.compile(program)


@pytest.mark.parametrize("batch", [1, 5])
def test_results_have_the_structure_of_the_module(batch: int) -> None:
    x, scale = torch.randn(batch, 6), torch.randn(3)
    with torch.no_grad():
        expected = MODULE((x, 3), scale=scale)
        found = compiled()((x, 3), scale=scale)
    assert torch.allclose(found["y"], expected["y"], rtol=1e-4, atol=1e-5)
    assert torch.allclose(found["rest"][0], expected["rest"][0], rtol=1e-4, atol=1e-5)
    assert found["rest"][1:] == [None, 3, batch, 6]


def test_ranges_of_the_program_are_kept() -> None:
    assert [size.name for size in compiled().model.program.sizes]
    with pytest.raises(InputError):
        compiled()((torch.randn(9, 6), 3), scale=torch.ones(3))


def test_arguments_are_checked() -> None:
    x = torch.randn(2, 6)
    with pytest.raises(InputError):
        compiled()(x, scale=torch.ones(3))
    with pytest.raises(InputError) as caught:
        compiled()((x.requires_grad_(), 3), scale=torch.ones(3))
    assert caught.value.hint is not None and "no_grad" in caught.value.hint


class Changes(nn.Module):
    """Overwrites an argument."""

    def forward(self, x: Tensor) -> Tensor:
        return x.add_(1) * 2


def test_overwritten_arguments_are_updated() -> None:
    run = tcopt.torch.compile(export(Changes(), (torch.zeros(3),)))
    x = torch.arange(3.0)
    y = run(x)
    assert x.tolist() == [1, 2, 3] and y.tolist() == [2, 4, 6]


def test_training_mode_is_an_error() -> None:
    program = export(nn.BatchNorm1d(3), (torch.randn(4, 3),))
    with pytest.raises(UnsupportedError) as caught:
        tcopt.torch.compile(program)
    assert "running_mean" in caught.value.message


def test_types_that_numpy_lacks_are_exchanged() -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x

    x = torch.randn(5).to(torch.bfloat16)
    run = tcopt.torch.compile(export(Twice(), (x,)))
    assert torch.equal(run(x), x + x)
