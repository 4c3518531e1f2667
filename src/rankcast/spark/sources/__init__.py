"""Events from where they are: which rows are events, and what they say."""
