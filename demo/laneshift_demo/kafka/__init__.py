"""The demo's Kafka: a broker of its own, fetched once, started and ended with the demo."""
