"""Outcomes: prices from a file or an exchange, the returns after each case, and the tables that store them."""
