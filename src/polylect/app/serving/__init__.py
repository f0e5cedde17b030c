"""A running engine in this program: putting it together, and serving it on two pipes or in process."""
