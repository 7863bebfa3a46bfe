"""The steps of the news pipeline, one file each."""
