"""The subscriber side of every engine: who subscribes, what their queues hold, and what is handed over when.

`Serving` is what a hub and a broker have in common. It has no clock, no lock, no file and no callbacks. `ranking` makes
rows of an event's matches, `queues` takes them in and delivers, `held_events` has the events by number as long as a
queue needs them, `subscriber_state` what is known of each subscriber, and `results` what is told.
"""
