//! Amazon Bedrock: the names of its exceptions (Amazon Bedrock API Reference, "Converse" and "Common Errors"), which come in a
//! header, in the body or as the name of a frame.

use crate::classify::FailureClass::{
    Auth, BadResponse, ModelNotFound, Overloaded, Permission, QuotaExhausted, RateLimit, ServerError, Timeout,
};
use crate::classify::row::{Row, codes};

pub(in crate::classify) const ROWS: &[Row] = &[
    codes(BadResponse, "Bedrock: the model broke off", &["malformed_model_output", "malformed_tool_use"]),
    codes(QuotaExhausted, "Bedrock: a quota of a day", &["throttlingexception"])
        .phrases(&["per day", "tokens/day"]),
    codes(
        RateLimit,
        "Bedrock: throttled",
        &["throttlingexception", "throttling", "toomanyrequestsexception", "requestlimitexceeded"],
    ),
    // A model that was imported is loaded when it is asked for.
    codes(RateLimit, "Bedrock: the model is not ready yet", &["modelnotreadyexception"]),
    codes(QuotaExhausted, "Bedrock: a quota of the account", &["servicequotaexceededexception"]),
    codes(
        Auth,
        "Bedrock: a credential that is refused",
        &[
            "unrecognizedclientexception",
            "invalidclienttokenid",
            "expiredtokenexception",
            "expiredtoken",
            "requestexpired",
            "invalidsignatureexception",
            "signaturedoesnotmatch",
            "incompletesignature",
            "incompletesignatureexception",
            "missingauthenticationtoken",
            "missingauthenticationtokenexception",
        ],
    ),
    codes(
        Permission,
        "Bedrock: not allowed",
        &["accessdeniedexception", "accessdenied", "notauthorized", "optinrequired", "ftuformnotfilled"],
    ),
    codes(ModelNotFound, "Bedrock: there is no such model", &["resourcenotfoundexception"]),
    // They come as errors of the request, and are mistakes in the target's `upstream_model`.
    codes(ModelNotFound, "Bedrock: the model's id is wrong here", &["validationexception"]).phrases(&[
        "the provided model identifier is invalid",
        "on-demand throughput isn't supported",
        "model id is not valid",
    ]),
    codes(Timeout, "Bedrock: the model took too long", &["modeltimeoutexception"]),
    codes(Overloaded, "Bedrock: no capacity", &["serviceunavailableexception", "serviceunavailable"]),
    codes(
        ServerError,
        "Bedrock: the service or the model failed",
        &["internalserverexception", "internalfailure", "modelerrorexception", "modelstreamerrorexception"],
    ),
];
