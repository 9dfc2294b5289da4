"""`vario mcp`: runs as tools for agents, over the Model Context Protocol."""
