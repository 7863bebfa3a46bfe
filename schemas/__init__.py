"""The records on the wire, their ids, and errors. Frozen structs."""
