"""Outside services played on loopback, speaking their real wire shapes, well and badly."""
