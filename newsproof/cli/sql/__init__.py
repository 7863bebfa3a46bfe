"""``newsproof sql``: runs statements on ClickHouse and prints the rows."""
