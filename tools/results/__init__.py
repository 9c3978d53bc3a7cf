"""Results compared with other runtimes."""
