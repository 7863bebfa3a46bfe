"""Kafka by plain clients: address and login, topics, bulk reads, consumer groups."""
