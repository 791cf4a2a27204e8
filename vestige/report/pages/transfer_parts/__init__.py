"""What the page of probe transfer is made of."""
