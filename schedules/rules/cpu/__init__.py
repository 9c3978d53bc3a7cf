"""Schedule rules for CPUs: one file for each kind of workload; the first that matches is used."""
