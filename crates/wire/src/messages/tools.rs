//! Tools that the provider itself executes.

/// A tool that the provider executes while it answers, by the beginning of its `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderTool {
    /// What its `type` begins with; a date follows.
    pub prefix: &'static str,
    /// It can change something outside of the answer: what it did cannot be undone by asking another target.
    pub writes: bool,
}

/// All that are known (Anthropic API, "Server tools" and "MCP connector"). Tools that the client executes
/// (`bash_`, `text_editor_`, `computer_`, `memory_`) are not among them.
pub const PROVIDER_TOOLS: &[ProviderTool] = &[
    ProviderTool { prefix: "web_search_", writes: false },
    ProviderTool { prefix: "web_fetch_", writes: false },
    ProviderTool { prefix: "tool_search_tool_", writes: false },
    ProviderTool { prefix: "code_execution_", writes: true },
    ProviderTool { prefix: "mcp_toolset", writes: true },
];

/// The row for a tool's `type`; `None` for a tool that the client executes.
#[must_use]
pub fn provider_tool(kind: &str) -> Option<ProviderTool> {
    PROVIDER_TOOLS.iter().copied().find(|tool| kind.starts_with(tool.prefix))
}
