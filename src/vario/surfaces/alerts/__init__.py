"""Telling the people who should know: what becomes an alert, through which channels it goes, and that it goes once."""
