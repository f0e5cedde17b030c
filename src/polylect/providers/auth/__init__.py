"""Signatures and tokens of the clouds: AWS SigV4, Google access tokens, RSA.

Written here because the vendors' libraries would multiply the size and the start time of the program. Only the
providers of Bedrock and Vertex import it, when they are opened.
"""
