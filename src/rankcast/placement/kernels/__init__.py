"""Kernels over boxes that several algorithms share."""
