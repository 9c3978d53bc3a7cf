"""Child processes, threads, cores, memory, and stopping."""
