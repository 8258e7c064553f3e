"""The library in a program's hands: tasks, orders about schedules and delayed runs, and looking."""
