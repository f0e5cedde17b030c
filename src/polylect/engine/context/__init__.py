"""What the model receives beside the conversation: system prompt, project instructions, attached files."""
