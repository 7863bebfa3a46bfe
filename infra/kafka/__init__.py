"""Kafka by plain clients: address and login, topics, bulk reads, consumer groups."""

from infra.kafka.lost_connections import survive_lost_connections

survive_lost_connections()
