"""What operators mean, whatever runs them: functions, shapes, recurrences, generic loops."""
