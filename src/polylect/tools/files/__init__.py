"""Files for tools: paths that stay in the allowed folders, reading and replacing files, searching, skills."""
