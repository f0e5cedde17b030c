"""The engine: it receives commands, runs turns of agents, and emits events.

Start reading at `engine.py` (dispatch of commands) and `turn/loop.py` (one turn from prompt to end). The engine
receives its providers, tools and store from `app/serving/assembly.py` and does no input or output of its own on the
wire.
"""
