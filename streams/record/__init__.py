"""The record of published signals, in which every later change is detectable: Merkle roots by day, files, proofs."""
