"""The frames of this wire as structs, by direction, and the table of their names."""
