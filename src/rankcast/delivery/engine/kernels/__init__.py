"""The kernels of the columnar engine: `dispatch` goes over rows and queues, the others are what it calls."""
