"""Any engine behind any host: commands of one wire go to an engine of another, and its events come back.

`bridged_engine.py` stands where an engine stands; `fates.py` says what of each pair of wires gets across. Used by
`app/serving/bridge.py`, which serves the front wire on stdin and stdout.
"""
