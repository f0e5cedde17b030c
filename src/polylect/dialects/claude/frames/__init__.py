"""The frames of this wire as structs, by direction, and the table of their names.

Both ends use them, and `schemas/` is generated from them.
"""
