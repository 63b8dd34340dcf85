"""Reads finished cells; knows no JAX."""
