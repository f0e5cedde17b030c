"""The words: what a host can ask, what an engine can say, and the rules of saying it. No I/O."""
