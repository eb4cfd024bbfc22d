"""A2A 0.3 and A2A 0.2, which do not differ in anything that is supported here.

Methods that 0.3 does not have are not supported, except two spellings of `message/stream` that clients use. The
conversions are imported with the first call of this version, because the SDK's models of A2A 0.3 take a tenth of the
start time of an agent.
"""

from typing import Final

from a2a.utils import errors

from fleetwright_a2a.dialects.deferred_conversions import DeferredConversions
from fleetwright_a2a.dialects.dialect import STREAMS, Dialect, Operation
from fleetwright_a2a.dialects.v10 import BESIDE_MESSAGE
from fleetwright_a2a.errors import INTERNAL_ERROR, NotTranslated

WORDS: Final = {
    "GetTask": "tasks/get",
    "ROLE_USER": "user",
    "mediaType": "mimeType",
}
CODES: Final[dict[type[errors.A2AError], int]] = {
    errors.TaskNotFoundError: -32001,
    errors.TaskNotCancelableError: -32002,
    errors.PushNotificationNotSupportedError: -32003,
    errors.UnsupportedOperationError: -32004,
    NotTranslated: -32004,
    errors.ContentTypeNotSupportedError: -32005,
    errors.InvalidAgentResponseError: -32006,
    errors.ExtendedAgentCardNotConfiguredError: -32007,
    # 0.3 has no code for this error, so it is reported as an unsupported operation.
    errors.ExtensionSupportRequiredError: -32004,
    errors.InvalidParamsError: -32602,
    errors.InvalidRequestError: -32600,
    errors.MethodNotFoundError: -32601,
    errors.JSONParseError: -32700,
}
METHODS: Final = {
    "message/send": Operation.SEND,
    "message/stream": Operation.STREAM,
    # These two are not part of any protocol version, but existing clients use them.
    "message/sendSubscribe": Operation.STREAM,
    "message/sendStream": Operation.STREAM,
    "tasks/get": Operation.GET,
    "tasks/cancel": Operation.CANCEL,
    "tasks/resubscribe": Operation.SUBSCRIBE,
    "tasks/pushNotificationConfig/set": Operation.SET_PUSH,
    "tasks/pushNotificationConfig/get": Operation.GET_PUSH,
    "tasks/pushNotificationConfig/list": Operation.LIST_PUSH,
    "tasks/pushNotificationConfig/delete": Operation.DELETE_PUSH,
    "agent/getAuthenticatedExtendedCard": Operation.EXTENDED_CARD,
}
_CONVERSIONS: Final = DeferredConversions("fleetwright_a2a.dialects.v03_conversions")

V03: Final = Dialect(
    version="0.3",
    methods=METHODS,
    reads={operation: _CONVERSIONS.read(operation) for operation in METHODS.values()},
    writes={operation: _CONVERSIONS.write(operation) for operation in METHODS.values() if operation not in STREAMS},
    teller=_CONVERSIONS.teller,
    codes=CODES,
    unavailable=INTERNAL_ERROR,
    limited=INTERNAL_ERROR,
    misplaced=BESIDE_MESSAGE,
    words=WORDS,
    conversions=_CONVERSIONS.module,
)
