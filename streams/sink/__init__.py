"""The sink: journal, signals and deliveries into ClickHouse, each record's rows once."""
