"""Fetches models, cuts them at the deployment's boundary, and compares outputs with reference outputs."""
