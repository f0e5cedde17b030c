"""omp rpc: the wire of `omp --mode rpc` (13, 18) and of pi. `plug.load("dialects", "omp").DIALECT`."""
