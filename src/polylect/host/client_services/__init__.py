"""Files and terminals that the SDK serves to engines; see `services.py`."""
