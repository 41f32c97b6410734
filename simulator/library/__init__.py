"""What the compiler and the simulation of an SM made of usual kernels, kept with the product.

So answers come from machine code where there is no compiler: `keys` say which kept kernel stands for a launch,
`files` hold them, `lookup` puts them into the resources of launches. `validate.library.build` makes the files.
"""
