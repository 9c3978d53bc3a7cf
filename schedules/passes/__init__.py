"""The passes `schedule` and `apply-schedule`."""
