"""Passes that the pipelines of several targets share."""

from __future__ import annotations

from collections.abc import Iterable

from tcopt.support.accuracy import DEFAULT, PRECISE
from tcopt.support.pipelines.pass_specs import PassSpec, specs
from tcopt.support.pipelines.phases import Phase, configured, with_passes

SIMPLIFY = specs(
    "fake-quantization-to-integer",
    "fold-constants",
    "fold-shapes",
    "decompose",
    "hoist-slices",
    "fold-constants",
    "fold-scale",
    "canonicalize",
    "merge-rows",
)
"""Graph passes that simplify the model. `fold-constants` runs again after passes that need it."""

TE = specs("lower-graph-to-te", "te-inline", "split-axes", "merge-axes")
LOOP = specs("lower-te-to-loop")
SCHEDULE = specs(PassSpec.of("schedule", now=True), "apply-schedule")


def make_phases(
    set_target: PassSpec,
    graph: Iterable[PassSpec],
    kernel: Iterable[PassSpec],
    accuracy: str = DEFAULT,
    precision: str = PRECISE,
) -> list[Phase]:
    """Return the phases of a compile.

    Args:
        set_target: pass that sets the target.
        graph: graph-level passes, ending with `fuse-ops`.
        kernel: passes that lower scheduled loops to the kernel level.
        accuracy, precision: see `TargetKind.pipeline`. The accuracy is an option of `winograd`,
            `widen-floats`, `fold-scale` and `fake-quantization-to-integer`. A reduced precision
            adds `lower-precision` before `pack-dots`, and is an option of `winograd`.
    """
    phases = [
        Phase("import"),
        Phase("graph", (set_target, *graph)),
        Phase("te", TE),
        Phase("loop", LOOP),
        Phase("schedule", SCHEDULE),
        Phase("kernel", kernel),
        Phase("code"),
    ]
    if accuracy != DEFAULT:
        for name in ("fake-quantization-to-integer", "fold-scale", "widen-floats", "winograd"):
            phases = configured(phases, name, accuracy=accuracy)
    if precision != PRECISE:
        phases = configured(phases, "winograd", precision=precision)
        lower = (PassSpec.of("lower-precision", to=precision),)
        phases = with_passes(phases, {"before:pack-dots": lower})
    return phases
