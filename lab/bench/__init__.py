"""Benchmarks: figures as ratios against something measured in the same run."""
