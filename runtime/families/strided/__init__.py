"""Generic operators on strided views, which serve all element types and ranks."""
