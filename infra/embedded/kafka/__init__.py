"""A real Apache Kafka on this machine: its jars, its Java, its configuration, its process."""
