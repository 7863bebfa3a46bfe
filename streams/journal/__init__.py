"""The log of cases: appends, reads by the acceptance rule, tombstones, configuration snapshots."""
