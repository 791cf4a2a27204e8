"""What the pages of neuron analyses share: rows taken apart, tables, findings, charts, the explorer."""
