"""Rotary positions: the halves of rows turn by the angles of their places."""
