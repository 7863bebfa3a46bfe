"""Kafka settings: connection, login, and topic layout."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class KafkaSettings(BaseSettings):
    """Connection to Kafka and login."""

    kafka_bootstrap_servers: str | None = Field(
        None, description="host:port,…; unset: an embedded Apache Kafka is started"
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] = Field(
        "PLAINTEXT", description="SASL without TLS is refused"
    )
    kafka_embedded_password_file: Path | None = Field(
        None,
        description="With KAFKA_BOOTSTRAP_SERVERS at 127.0.0.1: the password file of another command's embedded Kafka, which "
        "then decides alone how to log in; commands set it for the processes that they start",
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(None)
    kafka_sasl_username: str | None = Field(None)
    kafka_sasl_password: SecretStr | None = Field(None)
    kafka_ssl_ca_file: Path | None = Field(
        None, description="PEM certificates that brokers are checked against; unset: those of the operating system"
    )
    kafka_ssl_cert_file: Path | None = Field(
        None, description="PEM certificate of this client, where brokers ask for one"
    )
    kafka_ssl_key_file: Path | None = Field(
        None, description="PEM key of that certificate; unset: it is in the same file"
    )
    kafka_ssl_key_password: SecretStr | None = Field(None, description="Password of an encrypted key file")


class TopicSettings(BaseSettings):
    """Partitions and replicas of topics."""

    topic_partitions: int = Field(
        4, ge=1, le=512, description="Partitions of news, cases and signals; fixed at creation"
    )
    topic_replication: int = Field(1, ge=1, le=7, description="Replicas of every topic; 3 in production")
