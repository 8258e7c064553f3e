"""Timetables: rules that say when, each an immutable value that keeps the person's own words."""
