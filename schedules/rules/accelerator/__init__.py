"""Schedules for any accelerator with a matrix unit that its facts describe."""
