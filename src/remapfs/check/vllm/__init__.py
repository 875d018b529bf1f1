"""A dry run of vLLM's own loader: it gets every name that a plan presents, and no weight."""

from remapfs.check.vllm.loader import LoaderUnavailable, run_loader

__all__ = ["LoaderUnavailable", "run_loader"]
