"""Generated inputs of experiments and benchmarks. Everything is a function of its seed, on every machine."""
