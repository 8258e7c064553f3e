"""The demo: a store with two weeks of history, a fleet on it, and controls for whoever looks on."""
