"""Addresses and logins of the embedded servers, for other programs."""
