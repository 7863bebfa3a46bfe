"""Plain Kafka clients: address and login, topics, bulk reads, consumer groups."""

from infra.kafka.aiokafka_fixes import close_tls_promptly, raise_coordinator_errors, survive_lost_connections

survive_lost_connections()
close_tls_promptly()
raise_coordinator_errors()
