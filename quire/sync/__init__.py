"""The blocking API: twins of the asynchronous one over one private loop thread."""
