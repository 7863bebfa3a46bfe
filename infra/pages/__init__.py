"""Access to web pages: the address guard, the network access, and the text extraction."""
