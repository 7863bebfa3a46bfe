"""ClickHouse's engine behind its HTTP protocol on this machine, fenced, in a process of its own."""
