"""Seeing a mount work: counters that outlive servers, who reads, and what is told about it."""
