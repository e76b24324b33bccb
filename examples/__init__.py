"""Five programs to start from. docs/how-to explains them, and tests/examples runs them."""
