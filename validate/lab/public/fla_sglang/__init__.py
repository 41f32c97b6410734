"""Fourth round, drawn up with the third and not looked at either: most of fla, sglang and lmdeploy."""
