"""Data before the model sees it, with numpy alone: the order of batches, checks of text files."""
