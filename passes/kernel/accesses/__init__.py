"""Vector accesses of memory: gathers, scatters, and loads that may run early."""
