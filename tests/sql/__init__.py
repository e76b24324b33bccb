"""SQL databases: consumers, outboxes, and the databases below them."""
