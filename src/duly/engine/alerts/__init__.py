"""Alerts: what detects trouble, and what delivers notices of it."""
