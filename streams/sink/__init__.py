"""The sink: journal and signals into ClickHouse, each record's rows once."""
