"""What is given, what is allowed and what comes out: problems, interests, trees, solutions and their audit."""
