"""A simulator of accelerators, in parts that are independent of each other and of the compiler.

`timing` computes the duration of tasks and its causes, `proof` shows that results do not depend on
the order in which units run, and `trace` visualises a run. All use the task model of
`dialects/accelerator/tasks.py`, which is independent of a particular accelerator.
"""
