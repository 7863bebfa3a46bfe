"""The records on the wire, ids, errors, and the rule of acceptance. Frozen structs."""
