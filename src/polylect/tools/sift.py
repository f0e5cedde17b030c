"""Prints the lines of a part of a file that match: a program of its own, because a pattern may never end."""

import re
import sys


def main() -> None:
    pattern, path, start, stop = sys.argv[1:]
    try:
        wanted = re.compile(pattern.encode())
    except re.error as fault:
        sys.exit(f"not a regular expression: {fault}")
    with open(path, "rb") as file:
        file.seek(int(start))
        while (left := int(stop) - file.tell()) > 0:
            line = file.readline(left)
            if wanted.search(line.rstrip(b"\r\n")):
                sys.stdout.buffer.write(line)
