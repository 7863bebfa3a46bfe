"""The ClickHouse engine behind its HTTP protocol on loopback, in a sandboxed process of its own."""
