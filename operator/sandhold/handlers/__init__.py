"""kopf: events in, keys out, and the operator program that embeds it. No business lives here."""
