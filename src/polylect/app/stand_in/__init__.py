"""Standing in for other programs: the flags of claude, omp and pi, turned into our own settings."""
