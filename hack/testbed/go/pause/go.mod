module sandhold.dev/testbed/pause

go 1.26.0
