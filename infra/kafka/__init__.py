"""Kafka by plain clients: address and login, topics, bulk reads, consumer groups."""

from infra.kafka.lost_connections import report_lost_connections

report_lost_connections()
