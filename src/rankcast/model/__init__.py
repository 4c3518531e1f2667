"""The vocabulary: values, events, filters, subscriptions, subscribers, advertisements, schemas and errors.

Everything here is a frozen value without I/O, clock or randomness, and everything else in rankcast stands on it. Where
to look: `values` and `times` (what an attribute may hold), `events` and `cloudevents` (envelope and JSON),
`expressions` (filters as written), `filters` (their normal form) with `valuesets`, `intervals`, `strings` and
`patterns` below it, `schema`, `subscriptions`, `policies`, `diversity`, `advertisements`, `errors`.
"""
