"""Measurements against other engines and of whole runs; nothing else imports them."""
