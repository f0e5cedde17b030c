"""What the model can do, one file each. Never imports the engine or a dialect."""
