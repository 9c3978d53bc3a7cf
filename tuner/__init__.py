"""The tuner: search for schedules, measure them, and store and replay the best.

Nothing that compiles or runs a model imports this package. A tuned model has a lock file, which
`tcopt.schedules.tuning` reads.
"""
