"""Kafka by plain clients: address and login, topics, bulk reads, consumer groups."""

from infra.kafka.coordinator_errors import raise_coordinator_errors
from infra.kafka.lost_connections import survive_lost_connections

survive_lost_connections()
raise_coordinator_errors()
