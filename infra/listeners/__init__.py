"""Sources of news: what is published where, how it is fetched, and how it is read. Knows neither Kafka nor cases."""
