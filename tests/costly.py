"""How often a property is tried whose every example builds an index: a thorough run takes minutes, not an hour."""

from hypothesis import settings

COSTLY_EXAMPLES = min(settings.default.max_examples, 1_000)

costly = settings(max_examples=COSTLY_EXAMPLES)
"""Decorates a property that takes some 20 milliseconds per example."""
