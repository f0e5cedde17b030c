"""ACP over WebSocket: one process for any number of clients. Imported only with `--listen`."""
