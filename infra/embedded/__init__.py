"""Servers that run as child processes of this one: a real Kafka, and the engine of ClickHouse."""
