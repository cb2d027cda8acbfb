"""What schemathesis needs to know of Quipu beyond its OpenAPI document.

No check is switched off. Failures that are none are dropped one by one, each with its reason.
"""

import json
import re
from datetime import datetime, timezone

import schemathesis

NAMESPACES = ("ec", "accurate", "best")

# Valid requests that are refused for the time or the state that they meet.
OF_THE_MOMENT = {
    "FRESHNESS_OUT_OF_REACH",
    "TOO_FAR_AHEAD",
    "LATE",
    "OUTCOME_UNKNOWN",
    "NAMESPACE_REFUSED",
    "CLUSTER_REFUSED",
    "VERSION_MOVED",
    "KEEPS_NO_EVENTS",
    "COUNT_OUT_OF_RANGE",
    "QUOTA_EXCEEDED",
    "SCAN_LIMIT",
}

# Fields whose rules no schema can say.
BEYOND_SCHEMAS = re.compile(
    r"accept_limit|max_future|rollup\.coalesce"  # bounds of a duration
    r"|persistence.*"  # entries that fit together, and bounds of a duration
    r"|namespace|cluster"  # the path and the document name the same one
    r"|kafka\..*|cassandra\..*|redis\..*|dataset\..*"  # addresses that are no URLs, and bounds
    r"|page_token"  # only what an answer gave
    r"|if-none-match"  # not together with if-match
)
# Limits in bytes, where a schema counts characters.
BYTES = {"counter_name": 1024, "item_key": 128, "idempotency_token.token": 128, "quipu-author": 128}


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Lets calls about counters meet namespaces that exist, of every type."""
    about_counters = "counter" in context.operation.path or "events" in context.operation.path
    if about_counters and path_parameters and isinstance(path_parameters.get("ns"), str):
        name = path_parameters["ns"]
        if re.fullmatch("[a-z][a-z0-9_-]{0,62}", name):
            path_parameters["ns"] = NAMESPACES[sum(name.encode()) % len(NAMESPACES)]
    return path_parameters


def bring_up_to_date(body):
    """Makes tokens that fit the moment, so that mutations are taken; every second one stays as it is."""
    if not isinstance(body, dict):
        return
    token = body.get("idempotency_token")
    if isinstance(token, dict) and len(str(token.get("token"))) % 2 == 0:
        if re.match(r"\d{4}-\d\d-\d\dT", str(token.get("generation_time"))):
            now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
            token["generation_time"] = now
    items = body.get("items")
    for item in items if isinstance(items, list) else ():
        bring_up_to_date(item)


@schemathesis.hook
def map_case(context, case):
    bring_up_to_date(case.body)
    if case.method == "PUT" and isinstance(case.body, dict):
        # Generated apart, the path and the document would never name the same namespace.
        for field, parameter in (("namespace", "ns"), ("cluster", "name")):
            name = case.body.get(field)
            if isinstance(name, str) and re.fullmatch("[a-z][a-z0-9_-]{0,62}", name):
                if parameter in case.path_parameters:
                    case.path_parameters[parameter] = name
    return case


def error_of(response):
    """The reason of an error, and the field that it blames."""
    try:
        details = json.loads(response.content)["error"]["details"]
    except (ValueError, KeyError, TypeError):
        return None, ""
    reason, field = None, ""
    for detail in details:
        reason = detail.get("reason", reason)
        for violation in detail.get("field_violations", ()):
            field = violation["field"]
    return reason, field


def leaves(value):
    """Every text and number with a fraction in a JSON value."""
    if isinstance(value, (str, float)):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)


def parts(case):
    """Every text and number with a fraction of a request."""
    for part in (case.path_parameters, case.query, case.headers, case.body):
        yield from leaves(dict(part) if hasattr(part, "items") else part)


def is_refused_rightly(case, response):
    """Whether a request that fits the document was refused for what the document cannot say."""
    reason, field = error_of(response)
    if reason in OF_THE_MOMENT:
        return True
    if reason != "INVALID_FIELD":
        return False
    if BEYOND_SCHEMAS.fullmatch(field):
        return True
    if field == "delta" or field.startswith("quota."):
        # To a schema 1.0 is an integer, and a text of digits has no bounds.
        return any(
            isinstance(part, float) or re.fullmatch("[+-]?[0-9]{19,}", part) for part in parts(case)
        )
    if field == "quipu-author" and not (case.headers or {}).get(field, "").isascii():
        # The tool writes headers in Latin-1, where the server reads UTF-8: to it they have other characters.
        return True
    if field in BYTES:
        texts = (part for part in parts(case) if isinstance(part, str))
        return any(len(text.encode(errors="replace")) > BYTES[field] for text in texts)
    return False


def is_refused_in_part(case, response):
    """Whether a batch with a bad item has an error for it: a bad item fails alone, with status 200."""
    if not case.operation.path.endswith((":batchAdd", ":batchGet")) or response.status_code != 200:
        return False
    return any("error" in result for result in json.loads(response.content)["results"])


def is_ignored(case, response):
    """Whether what is bad stands where a BEST_EFFORT namespace looks at nothing: in tokens and item keys."""
    if response.status_code != 200 or json.loads(response.content).get("idempotent") is not False:
        return False
    token = case.body.get("idempotency_token") or {}
    return len(case.body.get("item_key", "")) > 128 or not 1 <= len(token.get("token", "t")) <= 128


@schemathesis.hook
def filter_failure(context, failure, case, response):
    kind = type(failure).__name__
    if kind == "RejectedPositiveData":
        return not is_refused_rightly(case, response)
    if kind == "AcceptedNegativeData":
        return not (is_refused_in_part(case, response) or is_ignored(case, response))
    if re.search(":(add|addAndGet|clear)$", case.operation.path):
        # Such a path can also be read: the whole is then the name of a counter.
        if kind == "AllowHeaderMismatch":
            return response.headers["allow"] != ["GET, HEAD, POST"]
        if kind == "UnsupportedMethodResponse":
            return case.method not in ("GET", "HEAD")
    if kind == "ServerError":
        # Documented, and passing: the answer must still have the documented form.
        return response.status_code not in (503, 504)
    return True
