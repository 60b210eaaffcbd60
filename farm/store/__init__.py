"""The store of all runs and rows."""

from farm.store.store import Store

__all__ = ["Store"]
