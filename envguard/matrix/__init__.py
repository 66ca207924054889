"""The compatibility matrix: typed rows, loader, invariants and queries."""
