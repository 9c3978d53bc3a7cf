"""Quantisation by a plan: select layers, measure them, show the plan, write the model."""
