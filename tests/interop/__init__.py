"""quire and Apache BookKeeper together: real bookies, and both clients (`make interop`)."""
