"""Functions that a program has Python compute: those on strings, and those that libraries have.

Each file registers some by `host_function`; a new one is a new file.
"""
