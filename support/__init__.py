"""What every other folder may use: errors, discovery, affine index arithmetic."""
