"""ClickHouse: client, migrations, and the mapping from events to rows."""
