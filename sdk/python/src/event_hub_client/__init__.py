"""The Python client of event-hub: typed handlers over a connection that may break.

``Client`` is for ``asyncio``; ``event_hub_client.sync.Client`` for everything else. ``event_hub_client.outbox`` writes rows that a hub
publishes.
"""

from .client import Client
from .connection import TokenFunction, TokenSource
from .consumer import Consumer
from .delivery import Context, Delivery, Retry, Return
from .errors import (
    AlreadySubscribedError,
    BadJsonError,
    BadRequestError,
    ClosedError,
    ConnectError,
    ForbiddenError,
    GroupConflictError,
    HubError,
    IdConflictError,
    InternalError,
    JwtInvalidError,
    LeaseLostError,
    NotDurableError,
    NoTokenError,
    NotSubscribedError,
    QueueFullError,
    QuotaExceededError,
    RateLimitedError,
    SchemaViolationError,
    TokenExpiredError,
    TokenFailedError,
    TokenRevokedError,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
    UnknownIdError,
    UnknownOpError,
)
from .handled import Handler, Subscription
from .model import AfterId, AfterSeq, AtTime, Event, Filter, Lagged, NewEvent, Receipt, Start, State
from .watch import Watch

__version__ = "0.1.0"

__all__ = [
    "AfterId",
    "AfterSeq",
    "AlreadySubscribedError",
    "AtTime",
    "BadJsonError",
    "BadRequestError",
    "Client",
    "ClosedError",
    "ConnectError",
    "Consumer",
    "Context",
    "Delivery",
    "Event",
    "Filter",
    "ForbiddenError",
    "GroupConflictError",
    "Handler",
    "HubError",
    "IdConflictError",
    "InternalError",
    "JwtInvalidError",
    "Lagged",
    "LeaseLostError",
    "NewEvent",
    "NoTokenError",
    "NotDurableError",
    "NotSubscribedError",
    "QueueFullError",
    "QuotaExceededError",
    "RateLimitedError",
    "Receipt",
    "Retry",
    "Return",
    "SchemaViolationError",
    "Start",
    "State",
    "Subscription",
    "TokenExpiredError",
    "TokenFailedError",
    "TokenFunction",
    "TokenRevokedError",
    "TokenSource",
    "TooLargeError",
    "UnauthorizedError",
    "UnavailableError",
    "UnknownIdError",
    "UnknownOpError",
    "Watch",
]
