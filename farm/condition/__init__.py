"""A unit's state, whether it is ready for a job, and the settings that a job needs there."""
