"""The search for the fastest variant and local size of every launch; it only sees values."""
