"""The vocabulary: values, events, filters, subscriptions, subscribers, advertisements, schemas and errors.

Everything here is a frozen value without I/O, clock or randomness, and everything else in rankcast stands on it. Where
to look: `values` and `times` (what an attribute may hold), `events` and `cloudevents` (envelope and JSON),
`expressions` (filters as written), `filters` (their normal form) with the sets of values in `valuesets` below it,
`schema`, `subscriptions` (with subscribers and advertisements), `policies`, `relevance`, `errors`.
"""
