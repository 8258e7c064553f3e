"""Applies a mutant in interpreters that tests start: `make mutants` puts this folder on their path."""

from tests.mutation.patching import apply_from_environment

apply_from_environment()
