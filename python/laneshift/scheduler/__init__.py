"""Policies: how many cores each elastic partition gets, and where."""
