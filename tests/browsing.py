"""What the tests in a real browser share."""

import json
import os
from pathlib import Path

PATIENCE = 60  # seconds
SCREENSHOTS = Path(os.environ.get("MAXNORM_SCREENSHOTS", "build/screenshots"))


def requested_addresses(driver):
    """Return the addresses that the browser has requested since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    requests = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [request["request"]["url"] for request in requests]
