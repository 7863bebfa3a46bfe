"""Reports: figures, charts, tables, and the narrative of a case."""
