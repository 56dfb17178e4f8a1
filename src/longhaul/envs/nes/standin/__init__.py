"""The stand-in: a free cartridge made here, with an assembler, drawn patterns and a game."""
