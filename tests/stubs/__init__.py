"""Stand-ins for NVIDIA's libraries and programs, and builders of machines made of files."""
