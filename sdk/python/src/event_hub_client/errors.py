"""What can fail. Programs go by the class or by :attr:`HubError.code`; the text is for people."""

from __future__ import annotations

from typing import ClassVar

from .model import Receipt


class HubError(Exception):
    """An error of the hub or of the connection to it.

    ``str(error)`` is ``code: message``. A hub that is newer than this client may send codes that have no class here; those are
    plain ``HubError`` objects with that code.
    """

    default_code: ClassVar[str] = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        id: str | None = None,
        retry_after: float | None = None,
        receipt: Receipt | None = None,
    ) -> None:
        self.code = code or self.default_code
        self.message = message
        #: The event that the error is about. After ``unavailable`` it may be stored or not; publishing this id again is safe.
        self.id = id
        #: After ``rate_limited``: seconds until the next attempt.
        self.retry_after = retry_after
        #: After ``not_durable``: where the event is stored.
        self.receipt = receipt
        super().__init__(f"{self.code}: {message}")


# Codes of the hub, in the order of docs/protocol.md.


class BadJsonError(HubError):
    """The frame was not JSON: a bug of this client."""

    default_code = "bad_json"


class BadRequestError(HubError):
    """Something that the hub does not take, or that JSON cannot say. The text names what is allowed."""

    default_code = "bad_request"


class UnknownOpError(HubError):
    """The hub does not have this operation: it is older than this client."""

    default_code = "unknown_op"


class UnauthorizedError(HubError):
    """No AUTH yet."""

    default_code = "unauthorized"


class NoTokenError(HubError):
    """There is no token, and no client certificate that names a subject."""

    default_code = "no_token"


class JwtInvalidError(HubError):
    """The token is not valid."""

    default_code = "jwt_invalid"


class TokenExpiredError(HubError):
    """The token has run out."""

    default_code = "token_expired"


class TokenRevokedError(HubError):
    """The token was taken back."""

    default_code = "token_revoked"


class ForbiddenError(HubError):
    """The token does not allow it. The text names the missing right."""

    default_code = "forbidden"


class AlreadySubscribedError(HubError):
    """This client has that subscription."""

    default_code = "already_subscribed"


class NotSubscribedError(HubError):
    """This client has no such subscription."""

    default_code = "not_subscribed"


class GroupConflictError(HubError):
    """The group has members and other options."""

    default_code = "group_conflict"


class UnknownIdError(HubError):
    """The event is not held here."""

    default_code = "unknown_id"


class RateLimitedError(HubError):
    """Too much in too short a time. See :attr:`HubError.retry_after`."""

    default_code = "rate_limited"


class QuotaExceededError(HubError):
    """A quota of the subject, the topic or the hub is used up."""

    default_code = "quota_exceeded"


class SchemaViolationError(HubError):
    """The payload does not match a schema of its topic. The text names the path and the rule."""

    default_code = "schema_violation"


class TooLargeError(HubError):
    """A payload or a list over its limit."""

    default_code = "too_large"


class IdConflictError(HubError):
    """The topic has this id with another payload or key."""

    default_code = "id_conflict"


class UnavailableError(HubError):
    """No answer in time: an event may be stored or not. Publishing :attr:`HubError.id` again is safe."""

    default_code = "unavailable"


class InternalError(HubError):
    """A bug of the hub."""

    default_code = "internal"


# Codes of this client.


class ClosedError(HubError):
    """The client or the subscription is closed."""

    default_code = "closed"


class ConnectError(HubError):
    """No connection, or it was lost. The text says why."""

    default_code = "connect_failed"


class TokenFailedError(HubError):
    """The token function raised, or took more than 30 seconds."""

    default_code = "token_failed"


class LeaseLostError(HubError):
    """The event is no longer leased to this handler."""

    default_code = "lease_lost"


class NotDurableError(HubError):
    """The event is stored, but less safely than ``require="fsync"`` asks for. See :attr:`HubError.receipt`."""

    default_code = "not_durable"


class QueueFullError(HubError):
    """More publishes are open than ``max_pending`` allows."""

    default_code = "queue_full"


_CLASSES: dict[str, type[HubError]] = {kind.default_code: kind for kind in HubError.__subclasses__()}

#: Codes after which another token is needed.
TOKEN_CODES = frozenset({"jwt_invalid", "token_expired", "token_revoked", "no_token"})


def error_of(code: str, message: str, *, id: str | None = None, retry_after: float | None = None) -> HubError:
    """The exception for a code."""
    return _CLASSES.get(code, HubError)(message, code=code, id=id, retry_after=retry_after)
