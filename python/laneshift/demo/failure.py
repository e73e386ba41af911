"""What stops the demo with one sentence instead of a stack trace."""


class DemoError(Exception):
    """The demo cannot go on; the message says what is missing and the way out."""
