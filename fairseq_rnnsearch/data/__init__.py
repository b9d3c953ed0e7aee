"""What happens to data before a model sees it, with numpy alone and neither fairseq nor torch."""
