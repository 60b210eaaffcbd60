"""The layouts, oldest first. A file here never changes once a store may have been made by it."""
