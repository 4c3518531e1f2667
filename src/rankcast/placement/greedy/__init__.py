"""Greedy placement, and the baselines that look at one thing only."""
