"""Decides whether a call may run: modes, rules as people write them, and a parser for shell command lines.

Pure but for paths. The engine asks `gate.verdict`; everything else here serves that answer.
"""
