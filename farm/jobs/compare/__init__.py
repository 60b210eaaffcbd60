"""`farm compare`: builds, models, tuned files and stored runs against each other."""
