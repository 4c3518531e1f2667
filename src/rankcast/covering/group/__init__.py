"""Group cover: is a filter contained in the union of others, none of which need contain it alone?"""
