"""Time zones as data: stretches of constant offset, from a named release of the tz database."""
