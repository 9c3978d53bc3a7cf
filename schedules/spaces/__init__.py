"""Spaces of choices: what rules leave open, as knobs with validity and an estimate."""
