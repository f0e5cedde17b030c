"""Model services: who serves a model, and how its replies are fetched.

A package for each vendor adds address, credentials and sockets to a wire of `apis/`. `http/` is the client that they
share, `auth/` signs requests, and `scripted/` plays a script without any network. `check.py` chooses one before
`ready`; `app/serving/open_provider.py` opens it. Every provider fulfils `Provider` of `vocab/ports.py`.
"""
