"""A network of brokers that delivers exactly what one central matcher would, with a fraction of the traffic.

`broker` is the way in: `messages` and time in, `effects` out. What neighbours are told is decided in `routing`, the way
of an event in `publishing`, and what own subscribers get in `local_subscribers`, by `rankcast.serving`. `links` puts
packets in order, `leases` ends what clients do not renew, `snapshots` has a broker as bytes, `broker_choice` says where
a newcomer fits best. `simulation` runs whole networks.
"""
