"""What reads and writes say about the order of a function's steps.

Every primitive asks here before it changes an order. Most functions need no more than one look:
where each element of a buffer is computed once, whole, and before anything reads it
(`single_assignment`), the rules of the primitives keep results as they are. Accesses to all other
buffers (`touches`) are compared in pairs (`overlap`), and a step that would exchange two of which
one writes and which may meet in an element is refused (`order`).
"""
