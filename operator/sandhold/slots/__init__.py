"""Who shares a workspace: keys now, lines and guards with the shared scopes."""
