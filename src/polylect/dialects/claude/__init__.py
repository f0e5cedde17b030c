"""Claude stream-json: the wire of the `claude` program and its SDKs. `plug.load("dialects", "claude").DIALECT`."""
