"""Placement by linear programming: the paper's SLP1 and SLP."""
