"""Reports: figures, charts, tables, and what happened in a case, in sentences."""
