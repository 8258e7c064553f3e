"""The testing kit: a clock set by hand, seeded draws, and the conformance suite for stores."""
