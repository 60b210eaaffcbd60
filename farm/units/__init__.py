"""Which units there are, what each is, and whether it is healthy."""
