"""Kafka by plain clients: where it is and how to log in, topics, bulk reads, groups."""
