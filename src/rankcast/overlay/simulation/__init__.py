"""A whole overlay in simulated time: topologies, the simulator and what it counts."""
