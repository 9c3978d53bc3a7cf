"""Translation rules for PTX instructions; `registry` imports all modules of this package."""
