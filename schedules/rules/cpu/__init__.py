"""Schedule rules for CPUs: one workload shape a file, the first that matches wins."""
