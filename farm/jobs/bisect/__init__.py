"""`farm bisect`: the commit at which a model became slower, or faster."""
