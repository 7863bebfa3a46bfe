"""Calibration: fits maps from raw confidence to how often such signals came true, once a day, from known outcomes."""
