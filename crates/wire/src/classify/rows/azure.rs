//! Azure OpenAI. Its codes are often the status as text ("429"), so that the message decides.

use crate::classify::FailureClass::{ModelNotFound, Overloaded, Permission, Timeout, Unsupported};
use crate::classify::row::{Row, codes, says};

pub(in crate::classify) const ROWS: &[Row] = &[
    says(Overloaded, "Azure: high demand, not this account's rate", &["high demand", "no capacity"])
        .status(&[408, 429, 503]),
    says(Timeout, "Azure: operation timed out", &["operation timed out", "request timed out"])
        .status(&[408, 500, 503]),
    codes(ModelNotFound, "Azure: no such deployment", &["deploymentnotfound", "resourcenotfound"]),
    says(Permission, "Azure: the network rules refuse", &["virtual network", "firewall rules"])
        .status(&[401, 403]),
    says(
        Unsupported,
        "Azure: the deployment's model does not do this",
        &["operation does not work with the specified model"],
    ),
];
