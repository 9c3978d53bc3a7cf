"""What must come before what on an accelerator, and how its units are made to wait."""
