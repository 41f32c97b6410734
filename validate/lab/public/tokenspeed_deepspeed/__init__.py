"""Fifth round: kernels that none before launches, most of tokenspeed, deepspeed and fla; many of new libraries."""
