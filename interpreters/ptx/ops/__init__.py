"""Rules for instructions, by concept; `registry` imports all of them."""
