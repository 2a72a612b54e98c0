"""Builds the images from the one Dockerfile, on machines with a container engine and without one."""
