"""`duly schedule`: make, look at and change schedules; one file for each kind of order."""
