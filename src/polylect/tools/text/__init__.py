"""Text for models and people: diffs, pages of lines, HTML as text, notebooks, truncation, glob patterns."""
