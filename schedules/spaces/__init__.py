"""Spaces of choices: the knobs of a schedule rule, with validity and a cost estimate."""
