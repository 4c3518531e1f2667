"""What a test of rankcast, or of a program that uses it, needs: public, and kept as stable as the rest.

`strategies` has Hypothesis strategies for everything in `rankcast.model`, `clock` a clock that only moves when told,
`conformance` the suite that every engine passes. Needs the extra `testing` (`pip install rankcast[testing]`).
"""
