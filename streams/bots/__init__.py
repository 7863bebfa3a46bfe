"""Bots: the positions that live signals ask for, compared with those that exist, and the deliveries between them."""
