"""A network of brokers that delivers exactly what one central matcher would, with a fraction of the traffic."""
