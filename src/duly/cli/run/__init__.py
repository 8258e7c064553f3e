"""`duly run`: looking at runs, waiting for them, and orders about them."""
