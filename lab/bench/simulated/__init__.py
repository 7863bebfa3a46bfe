"""Benchmarks of statistics on simulated data with a known truth: comparisons of runs, calibration."""
