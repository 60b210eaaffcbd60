"""How a store of an older layout becomes one of today's: one file a layout in `versions`, run by Alembic."""
