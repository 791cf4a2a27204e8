"""Single neurons: which of them carry a property, where they are, and what changes under fine-tuning."""
