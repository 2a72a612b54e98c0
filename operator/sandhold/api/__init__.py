"""What a user may write: the three kinds as models, and the CRD documents made from them."""
