"""What depends on constants alone, scales that go into weights, reshapes that say nothing."""
