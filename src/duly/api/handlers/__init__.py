"""What each operation does: a plain function from what was received to what is answered."""
