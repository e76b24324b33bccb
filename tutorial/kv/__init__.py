"""A replicated key-value server over HTTP, on `quire.Service`. See tutorial/kv/README.md."""
