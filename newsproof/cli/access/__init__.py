"""How other programs reach the embedded servers, and as whom."""
