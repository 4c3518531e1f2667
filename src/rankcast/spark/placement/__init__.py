"""Placement by linear programming for very many subscribers, on Spark."""
