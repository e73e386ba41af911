"""The plugin in the driver's JVM: how it is asked, and what it answers."""
