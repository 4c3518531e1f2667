"""Named arrays as one message or one file, and what is expected of the arrays that come out of one.

`container` is the form: it knows names, types and places of arrays, and nothing of what they mean. `expectations` says,
as tables, what a structure needs of its arrays so that no kernel is led outside them.
"""
