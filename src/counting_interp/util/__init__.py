"""Helpers for all packages. They know nothing about models."""
