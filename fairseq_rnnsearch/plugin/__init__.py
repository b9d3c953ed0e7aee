"""What fairseq sees: models, criterion, optimizer, task and their registration."""
