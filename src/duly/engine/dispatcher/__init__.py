"""The dispatcher: loads timers, fires what is due, steps backfills, reaps, maintains the store."""
