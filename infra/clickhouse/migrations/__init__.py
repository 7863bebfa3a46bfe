"""Numbered SQL migrations. A package, so that an installed wheel contains them."""
