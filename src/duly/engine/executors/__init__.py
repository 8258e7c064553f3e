"""Executors: the ways in which a task's code is run."""
