"""The fairseq plugin: models, criterion, optimizer, task and their registration."""
