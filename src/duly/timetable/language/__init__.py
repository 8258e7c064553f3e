"""Plain language: reading what a person typed, and recognising which kind of rule it is."""
