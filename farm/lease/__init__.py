"""The exclusive, expiring right to use a unit."""
