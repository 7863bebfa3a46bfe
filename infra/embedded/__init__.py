"""Servers that run as child processes of this one: Apache Kafka and the ClickHouse engine."""
