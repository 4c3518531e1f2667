"""How much does a subscriber want an event? `preferences` turns stated preferences into ranks of events."""
