"""The program: arguments, configuration, standard streams. May import all; nothing imports it."""
