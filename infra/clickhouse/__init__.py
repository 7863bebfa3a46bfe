"""ClickHouse: the client, the migrations, and the one mapping from events to rows."""
