"""Bots: the positions that live signals ask for, the book of actual positions, and the deliveries that close the gap."""
