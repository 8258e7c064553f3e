"""The schedule editor's rules: what a form says, what it means, and what would come of it."""
