"""The player: a stream through the rule graph, a router, experts, a critic, and their phases."""
