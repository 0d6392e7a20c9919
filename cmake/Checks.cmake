# The checks of the tree itself that are quick enough to be tests.
