"""A report of one run: a file that can be sent."""
