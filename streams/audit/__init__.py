"""Audits of the log and of the published signals. They share no state with the code that wrote them."""
