"""Tuning files of inference engines: what vLLM and SGLang read beside their kernels, predicted instead of timed."""
