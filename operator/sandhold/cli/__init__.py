"""`sandhold`, the command line of people: reads live objects, changes what a person may change, asks the operator."""
