"""What we ask of the operating system: files, threads, search paths, repositories, environments of children."""
