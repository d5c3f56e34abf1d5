class CaptureError(Exception):
    """The capture cannot be made, or not right; the message says what was found and what to do."""
