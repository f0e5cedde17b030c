"""Reading, searching and replacing files without leaving the folders that a call may touch."""
