"""The tools of the model, one module each in `builtin/`, and what they share. Imports neither the engine nor a
dialect."""
