"""The pure centre of Duly: values and decisions, without IO, clock or randomness."""
