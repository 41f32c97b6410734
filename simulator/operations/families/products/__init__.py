"""Products of matrices: by the vendors' libraries, of groups of unlike rows, of whole numbers."""
