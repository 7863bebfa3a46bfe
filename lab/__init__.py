"""The lab: what puts the product to the test and is not shipped with it."""
