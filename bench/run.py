"""`python bench/run.py`: see program.py. This only makes the folder a package, from wherever it is called."""

import runpy
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)
runpy.run_module("bench.program", run_name="__main__")
