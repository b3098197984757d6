"""The command line. A command parses, calls the library, prints; nothing else in the package prints."""
