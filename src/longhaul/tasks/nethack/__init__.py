"""Playing NetHack's early game for score, with experts guided by a graph of rules."""
