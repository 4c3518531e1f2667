"""The match stage: compiled subscribers on the workers, and ranked matches as packed rows."""
