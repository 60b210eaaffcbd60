"""`farm nightly`: the matrix of cases on all units, kept in the store and judged."""
