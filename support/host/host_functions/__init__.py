"""Functions that compiled programs call in Python: string operations, and uses of libraries.

Each file registers functions by `host_function`; new files are found automatically.
"""
