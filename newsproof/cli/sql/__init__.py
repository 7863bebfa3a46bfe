"""``newsproof sql``: statements on ClickHouse, and how rows are printed."""
