"""The lab: chaos, hostile-input, outage and benchmark runs that test the product and do not ship with it."""
