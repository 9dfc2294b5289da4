"""Ways by which an alert leaves: one file each, all of them alike to whoever sends."""
