"""The listener: items of sources become news, each once. Its memory is two compacted topics."""
