"""The kernels that search segments and deltas: `search` is called from Python, the others by it."""
