"""What stands behind the public face of the SDK (`host/agent.py`, `host/turn.py`) and keeps a conversation going.

`conversation` sends commands and passes on events; `open_turns` has the turns that were begun; `engine_supervisor`
starts, watches and replaces the engine; `answer_watch` notices one that does not answer; `transcript` is what a new
session is told.
"""
