"""Writes the schemas beside this file: `python schemas/generate.py`. A test fails when they are out of date."""

from pathlib import Path

from polylect import plug
from polylect.dialects import schema

DIALECTS = ("jsonstream", "omp", "claude")

if __name__ == "__main__":
    for name in DIALECTS:
        dialect = plug.load("dialects", name).DIALECT
        for version in dialect.shapes:
            target = Path(__file__).with_name(schema.file_name(dialect, version))
            target.write_text(schema.text(dialect, version), encoding="utf-8")
