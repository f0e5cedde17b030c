"""Pure functions on text that tools share: diffs, patterns, pages of lines, truncation. They do no I/O."""
