"""What state a unit is in, whether it is fit for a job, and the settings that a job needs there."""
