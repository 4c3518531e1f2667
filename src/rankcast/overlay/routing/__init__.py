"""What a broker knows of advertisements and interests, and what each neighbour is told of them."""
