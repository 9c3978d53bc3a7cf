"""What handlers of operators work with."""
