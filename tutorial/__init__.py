"""Programs to learn quire from; README.md in this folder tells the story."""
