"""The subcommands of `polylect`, one module each, and what they share."""
