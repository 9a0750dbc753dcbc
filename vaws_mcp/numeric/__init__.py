"""Numbers out of lists of measurements, with missing values kept apart from zero."""
