"""A family of one operator, Cube: all that is written to add an operator with a kernel.

tests/native/test_new_operator.py lays the folder, but for `cases.py`, into a copy of `runtime/families`; `cases.py` has
its place in tests/runtime/families, named as the family.
"""
