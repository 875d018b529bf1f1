"""How a plan is made visible."""
