"""What runs inside vLLM's environment, with nothing but the standard library, NumPy, torch and vLLM.

remapfs is not installed there: these modules import only each other. They keep to Python 3.10, the oldest
that vLLM runs on.
"""
