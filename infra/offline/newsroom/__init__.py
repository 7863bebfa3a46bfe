"""A newsroom on this machine: sources of news of many kinds that play the sample's events, for ``demo --listen`` and for tests."""
