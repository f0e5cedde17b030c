"""APIs of model vendors, without I/O: a `ModelRequest` to a JSON body, the stream of the reply to model events.

`providers` adds addresses, credentials and the network. `history` and `encoded_history` prepare conversations,
`arguments` and `faults` are shared by the stream parsers.
"""
