"""Kafka settings: connection, login, and topic layout."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class KafkaSettings(BaseSettings):
    """Connection to Kafka and login."""

    kafka_bootstrap_servers: str | None = Field(
        None, description="Kafka brokers as host:port,… Unset: start an embedded Apache Kafka"
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] = Field(
        "PLAINTEXT", description="SASL without TLS is rejected"
    )
    kafka_embedded_password_file: Path | None = Field(
        None,
        description="Password file of the embedded Kafka that another command started; needs KAFKA_BOOTSTRAP_SERVERS at "
        "127.0.0.1 and replaces all other login settings. Commands set it for their child processes",
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="SASL mechanism. Unset: no SASL login"
    )
    kafka_sasl_username: str | None = Field(None, description="SASL user name")
    kafka_sasl_password: SecretStr | None = Field(None, description="SASL password")
    kafka_ssl_ca_file: Path | None = Field(
        None,
        description="PEM file of CA certificates that verify the brokers. Unset: the operating system's certificates",
    )
    kafka_ssl_cert_file: Path | None = Field(
        None, description="PEM certificate of this client, for brokers that require one"
    )
    kafka_ssl_key_file: Path | None = Field(
        None, description="PEM key of KAFKA_SSL_CERT_FILE. Unset: the key is in the same file"
    )
    kafka_ssl_key_password: SecretStr | None = Field(None, description="Password of an encrypted key file")


class TopicSettings(BaseSettings):
    """Partitions and replicas of topics."""

    topic_partitions: int = Field(
        4, ge=1, le=512, description="Partitions of the topics news, cases and signals; fixed once the topics exist"
    )
    topic_replication: int = Field(1, ge=1, le=7, description="Replicas of every topic. Use 3 in production")
