"""Filter text and CloudEvents filter dialects, to filters and back.

`parser` reads text, `printer` writes it, `dialects` reads the JSON filters of the CloudEvents Subscriptions API. The
law between the first two: what `printer.format_filter` writes, `parser.parse_filter` reads as an equal filter.
"""
