"""A whole overlay in simulated time: topologies, plans, the simulator and what it counts."""
