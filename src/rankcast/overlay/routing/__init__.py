"""What a broker knows of advertisements and interests, what each neighbour is told of them, and whom an event is for.

`state` is the way in: it keeps what has come (`interests`) and, per neighbour, what that is told (`neighbours`), which
`forward_sets` decide by `strategies`. `audiences` chooses the k best subscribers of an event.
"""
