"""Quantisation of models: ranges found by calibration, layers in 8 bits where these pay."""
