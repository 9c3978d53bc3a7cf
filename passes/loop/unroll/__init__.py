"""Loop unrolling."""
