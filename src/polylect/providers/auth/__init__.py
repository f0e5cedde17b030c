"""Signatures and tokens of the clouds: AWS SigV4, Google access tokens, RSA."""
