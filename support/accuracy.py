"""Settings that select which approximations of a model's arithmetic are legal."""

ACCURACIES = ("strict", "default", "fast")
"""Values of the setting `accuracy`, from the most accurate to the fastest.

See `docs/accuracy.md` for what each allows, with measured errors."""

STRICT, DEFAULT, FAST = ACCURACIES

PRECISIONS = ("f32", "bf16", "f16")
"""Values of the setting `precision`: the type that operands of convolutions and matrix products
with constant weights are rounded to: `bf16` on CPUs, `f16` on GPUs, both on CUDA GPUs.
"""

PRECISE = "f32"
"""Precision without any rounding of operands."""
