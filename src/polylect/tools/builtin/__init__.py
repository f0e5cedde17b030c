"""The tools that every engine has, one module each, with a function `open_tool`. `tools/standard.py` opens them."""
