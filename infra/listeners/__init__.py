"""Sources of news: the list of sources, and fetching and parsing of their items. Knows neither Kafka nor cases."""
