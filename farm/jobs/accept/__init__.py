"""`farm accept`: what may be believed of a unit, found out before anything is measured there."""
