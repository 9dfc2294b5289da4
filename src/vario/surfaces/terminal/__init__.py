"""Runs under watch on a terminal: as an application for a person, and as plain lines for a log file."""
