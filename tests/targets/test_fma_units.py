"""Multiply-adds that a core issues per cycle: derived from the CPU's name, and consequences."""

from __future__ import annotations

import pytest

from tcopt.backends.llvm.machine import host
from tcopt.dialects.target import CpuTargetAttr
from tcopt.dialects.target.convolution_costs import ConvLayer
from tcopt.passes.graph.winograd.exact_tiles import WORTH, estimates
from tcopt.targets.cpu import MACHINES

RESIDENT = 46 << 20
"""Bytes of ResNet-18's weights."""


@pytest.mark.parametrize(
    ("name", "features", "units"),
    [
        ("znver4", ("avx2", "avx512f", "avx512vl"), 1),
        # If a hypervisor masks AVX-512, vectors are computed at full width.
        ("znver4", ("avx2",), 2),
        ("sapphirerapids", ("avx2", "avx512f", "avx512vl"), 2),
        ("unheard-of", ("avx2", "avx512f", "avx512vl"), 2),
    ],
)
def test_this_machine_has_what_its_name_says(
    name: str, features: tuple[str, ...], units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    llvm = host.llvm
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: name)
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: dict.fromkeys(features, True))
    found = host.host_target.__wrapped__()
    assert (found.cpu, found.fma_units) == (name, units)
    assert CpuTargetAttr.of(found).vectors.fma_units == units


def chosen(cpu: str, channels: int, size: int) -> int:
    """Return the tile estimated to be fastest for a layer of ResNet-18; 0 for a direct
    convolution."""
    costs = CpuTargetAttr.of(MACHINES[cpu]).convolution_costs
    assert costs is not None
    layer = ConvLayer(1, size, size, channels, channels, RESIDENT)
    direct, times = estimates(layer, costs, [2, 4])
    best = min(times, key=times.__getitem__)
    return best if times[best] <= WORTH * direct else 0


def test_tiles_suit_cores_that_compute_less_while_they_read() -> None:
    """As measured on Zen 4: direct convolutions of 512 channels take 1.5 times as long as F(2x2),
    and F(4x4) has too many weights."""
    layers = [(64, 56), (128, 28), (256, 14), (512, 7)]
    assert [chosen("znver4", *layer) for layer in layers] == [4, 4, 4, 2]
    assert [chosen("skylake-avx512", *layer) for layer in layers] == [4, 4, 2, 2]
