"""The settings that say which approximations of a model's arithmetic a compile may use."""

ACCURACIES = ("strict", "default", "fast")
"""Values of the setting `accuracy`, from the most accurate to the fastest.

`docs/accuracy.md` says what each allows, with measured errors."""

STRICT, DEFAULT, FAST = ACCURACIES

PRECISIONS = ("f32", "bf16", "f16")
"""Values of the setting `precision`: what the operands of convolutions and matrix products
with constant weights are rounded to: `bf16` on CPUs, `f16` on GPUs, both on those of CUDA."""

PRECISE = "f32"
"""The precision in which nothing is rounded."""
