"""Driving engines: the same dialects run the other way round."""
