"""What the model is told beside the conversation: system prompt, instructions of the project, attached files."""
