"""Facts about the world from named, replaceable sources: time-zone files and public holidays."""
