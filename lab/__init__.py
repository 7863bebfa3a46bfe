"""The lab: chaos, hostile-input, outage, acceptance and benchmark runs and judged cases, which do not ship with the product."""
