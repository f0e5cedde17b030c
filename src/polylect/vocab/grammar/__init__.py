"""Which event may follow which: the rules, the check of a stream against them, and the completion of one with gaps."""
