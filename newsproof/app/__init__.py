"""Settings in, running parts out: composition, servers, and what every command shares."""
