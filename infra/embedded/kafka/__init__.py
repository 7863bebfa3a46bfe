"""Apache Kafka on this machine: its jars, Java runtime, configuration and process."""
