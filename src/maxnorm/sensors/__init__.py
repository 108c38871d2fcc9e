"""Logs of sensors: cleaning of files, and watching of streams."""
