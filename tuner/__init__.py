"""The tuner: schedules found by search, measured, kept and replayed.

Nothing that compiles or runs a model imports it; a tuned model has a lock file, which
`tcopt.schedules.tuning` reads.
"""
