"""What the published trial left untested: other graphs, partitions, sizes, sweeps and factors."""
