"""The tools that every engine has, one module each. `tools/standard.py` lists them."""
