"""Sets of values: what a filter accepts of one attribute, as intervals, strings and patterns."""
