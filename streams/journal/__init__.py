"""The log of cases: appending, reading by the rule of acceptance, tombstones, configurations."""
