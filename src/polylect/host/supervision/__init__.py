"""What keeps an agent's conversation going although engines end: used by `host/agent.py`.

`engine_supervisor` starts, watches and replaces the engine; `answer_watch` notices one that does not answer;
`transcript` is what a new session is told.
"""
