"""What every job stands on: many units at once, one unit ready to work, a row of each outcome."""
