"""Users' operators: what they declare, and how that becomes a row of every table that ours stand in."""
