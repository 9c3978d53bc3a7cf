"""Schedules for an accelerator with a matrix unit between memories that programs place data in."""
