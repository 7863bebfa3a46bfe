"""Outside services on loopback with their real wire formats, both working and failing."""
