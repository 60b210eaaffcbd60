"""`farm serve`: a page, an API and metrics of all units, what runs on them and what came of it."""
