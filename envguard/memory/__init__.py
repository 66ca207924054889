"""Predicts GPU and host memory of a training job, phase by phase, the save included."""
