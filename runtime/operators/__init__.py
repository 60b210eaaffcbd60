"""The operators of the graph: what a row says of each, and the table that is collected from the families."""
