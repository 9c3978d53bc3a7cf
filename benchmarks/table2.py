"""The convolutions of the TVM paper's table 2 that its accelerator runs, C2 to C12."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tcopt.dialects.target import VdlaTargetAttr


@dataclass(frozen=True)
class Layer:
    """A convolution of a square image, and its values in the paper's figure 10.

    Attributes:
        paper: fraction of the roof without and with latency hiding, and of the unit's peak.
        times: number of such layers in ResNet-18.
    """

    name: str
    size: int
    inputs: int
    outputs: int
    kernel: int
    stride: int
    paper: tuple[float, float]
    times: int = 1

    @property
    def pad(self) -> int:
        return self.kernel // 2

    @property
    def out(self) -> int:
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def products(self) -> int:
        return self.out**2 * self.outputs * self.inputs * self.kernel**2

    @property
    def counted_bytes(self) -> int:
        """Bytes as the paper counts them: all data, weights and sums once."""
        data = self.size**2 * self.inputs
        return data + self.outputs * self.inputs * self.kernel**2 + 4 * self.out**2 * self.outputs

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return 2 * self.products / self.counted_bytes

    def cycles(self, facts: VdlaTargetAttr) -> int:
        """Cycles in which the unit multiplies, with channels in whole blocks."""
        _, lanes, inner = facts.unit
        blocks = ceil(self.inputs / inner) * ceil(self.outputs / lanes)
        return blocks * self.kernel**2 * self.out**2

    def roof(self, facts: VdlaTargetAttr) -> float:
        """Upper bound of their share by the port's bandwidth, with the paper's count of bytes."""
        rate = facts.port_bytes.data / facts.port_cycles.data
        return min(1.0, self.cycles(facts) / (self.counted_bytes / rate))


LAYERS = (
    Layer("C2", 56, 64, 64, 3, 1, (0.672, 0.729), 4),
    Layer("C3", 56, 64, 64, 1, 1, (0.214, 0.283), 0),
    Layer("C4", 56, 64, 128, 3, 2, (0.606, 0.755)),
    Layer("C5", 56, 64, 128, 1, 2, (0.128, 0.182)),
    Layer("C6", 28, 128, 128, 3, 1, (0.696, 0.821), 3),
    Layer("C7", 28, 128, 256, 3, 2, (0.580, 0.839)),
    Layer("C8", 28, 128, 256, 1, 2, (0.197, 0.296)),
    Layer("C9", 14, 256, 256, 3, 1, (0.579, 0.882), 3),
    Layer("C10", 14, 256, 512, 3, 2, (0.385, 0.594)),
    Layer("C11", 14, 256, 512, 1, 2, (0.187, 0.290)),
    Layer("C12", 7, 512, 512, 3, 1, (0.391, 0.632), 3),
)
"""The paper's values are read off its figure 10, which names the layers C1 to C11."""
