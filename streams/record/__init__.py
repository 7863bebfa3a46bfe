"""The record of published signals, which nobody can change afterwards unnoticed: Merkle roots by day, files, proofs."""
