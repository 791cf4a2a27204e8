"""What the page of the layer probes is made of: all of them read a group, and nothing else of each other."""
