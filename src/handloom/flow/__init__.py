"""Flows: plans that are read from files, checked, and carried out so that a crash at any moment loses nothing."""
