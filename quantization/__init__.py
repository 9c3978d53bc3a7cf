"""Quantisation of models: ranges from calibration, and 8-bit layers where they pay off."""
