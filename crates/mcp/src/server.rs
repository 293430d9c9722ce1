//! The protocol server: lists tools and resources, and executes calls concurrently.

use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ServerCapabilities, ServerConfig, Tool as Listed, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::desk::Desk;
use super::frame::RAW;
use super::resources::{Item, ShelfError};
use super::schema;
use super::told::Told;
use super::tools::{Does, Tool};

/// What the server tells a model about itself as a whole.
const INSTRUCTIONS: &str = "These tools send requests to a gate that checks each one against \
    rules that neither you nor these tools can change. Begin with the lists: they have the names \
    that you may use. The first line of a result says what happened. A refusal names the failed \
    checks with the measured value, the limit and, for orders, the headroom: send again within that \
    under a fresh id, or use `explain`. You can always reduce, cancel, tighten and halt. A result \
    with status `unknown` may have been done: call again with the same id and arguments. No tool \
    approves held requests: a person does that.";

/// Which names of tools are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Names {
    /// Names without dots, which every client accepts.
    Plain,
    /// The names of the contracts, some with dots.
    Contract,
}

/// What is offered to a client.
pub(crate) struct Offer {
    /// The tools that may be called.
    pub tools: Vec<&'static Tool>,
    /// How they are listed.
    pub names: Names,
    /// Whether the schema of every tool's result is listed.
    pub has_output_schemas: bool,
}

/// Serves the tools over one desk.
#[derive(Clone)]
pub(crate) struct Server {
    offer: Arc<Offer>,
    desk: Arc<Desk>,
}

impl Server {
    /// Creates a server of these tools.
    pub(crate) fn new(offer: Offer, desk: Desk) -> Server {
        Server {
            offer: Arc::new(offer),
            desk: Arc::new(desk),
        }
    }
}

/// Methods whose params the SDK reads.
const METHODS: [&str; 7] = [
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
];

fn mime_of(uri: &str) -> &'static str {
    if uri.ends_with(".yaml") {
        "application/yaml"
    } else if uri.starts_with("spoolgate:///schemas/") {
        "application/schema+json"
    } else {
        "text/plain"
    }
}

impl Offer {
    fn listed(&self, tool: &Tool) -> Listed {
        // The other hints have the right meaning if they are absent: destructive, and not
        // idempotent, because a change is done once only if the call names an id.
        // The other hints have the right meaning if they are absent: destructive, and not
        // idempotent, because a change is done once only if the call names an id.
        let hints = ToolAnnotations::with_title(tool.title)
            .read_only(tool.is_query)
            .open_world(matches!(tool.does, Does::Outgoing));
        let name = match self.names {
            Names::Plain => tool.name.into(),
            Names::Contract => tool.contract_name(),
        };
        let listed = Listed::new(name, schema::description(tool), schema::input(tool))
            .with_annotations(hints);
        if self.has_output_schemas {
            listed.with_raw_output_schema(Arc::new(schema::output()))
        } else {
            listed
        }
    }
}

/// Builds the protocol result: one text, which is all that many clients show to a model, and the
/// structured content.
fn result(told: &Told) -> CallToolResult {
    let content = vec![ContentBlock::text(told.text())];
    let mut result = if told.is_error() {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(json!({ RAW: told.json() }));
    result
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("spoolgate-mcp", spoolgate_wire::VERSION);
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.offer
                .tools
                .iter()
                .map(|tool| self.offer.listed(tool))
                .collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self
            .offer
            .tools
            .iter()
            .copied()
            .find(|tool| tool.is_called(&request.name))
        else {
            let name: String = request.name.escape_debug().take(128).collect();
            return Err(ErrorData::invalid_params(
                format!("tool `{name}` does not exist"),
                None,
            ));
        };
        let arguments = match request
            .arguments
            .and_then(|mut arguments| arguments.remove(RAW))
        {
            Some(Value::String(text)) => text,
            _ => "{}".to_owned(),
        };
        let desk = Arc::clone(&self.desk);
        let told = tokio::task::spawn_blocking(move || desk.call(tool, &arguments))
            .await
            .map_err(|_| {
                ErrorData::internal_error(
                    "the call was interrupted; `explain` shows its result",
                    None,
                )
            })?;
        Ok(result(&told).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = |item: Item| {
            let mime = mime_of(&item.uri);
            Resource::new(item.uri, item.path).with_mime_type(mime)
        };
        let items = self.desk.shelf().list();
        Ok(ListResourcesResult::with_all_items(
            items.into_iter().map(resource).collect(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = self
            .desk
            .shelf()
            .read(&request.uri)
            .map_err(|error| match &error {
                ShelfError::None(_) => ErrorData::resource_not_found(error.to_string(), None),
                ShelfError::Disk { source, .. }
                    if source.kind() == std::io::ErrorKind::NotFound =>
                {
                    ErrorData::resource_not_found(error.to_string(), None)
                }
                _ => ErrorData::internal_error(error.to_string(), None),
            })?;
        let mime = mime_of(&request.uri);
        let contents = ResourceContents::text(text, request.uri).with_mime_type(mime);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    /// Refuses what the SDK does not recognize as one of its requests: an unknown method, or wrong
    /// params of a known one.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method: String = request.method.escape_debug().take(128).collect();
        Err(match METHODS.contains(&request.method.as_str()) {
            true => {
                ErrorData::invalid_params(format!("these are not valid params of `{method}`"), None)
            }
            false => ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("method `{method}` does not exist"),
                None,
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{GROUPS, offered};

    /// Returns the size of `tools/list`, in bytes.
    fn listing(names: &[&str], has_output_schemas: bool) -> usize {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let offer = Offer {
            tools: offered(&names).unwrap(),
            names: Names::Plain,
            has_output_schemas,
        };
        let tools = offer.tools.iter().map(|tool| offer.listed(tool));
        let listed = ListToolsResult::with_all_items(tools.collect());
        serde_json::to_string(&listed).unwrap().len()
    }

    #[test]
    fn lists_of_tools_are_short() {
        for group in GROUPS {
            let bytes = listing(&[group.name], false);
            assert!(bytes <= 12_000, "{}: {bytes} bytes", group.name);
        }
        let (all, trading) = (listing(&[], false), listing(&["trading"], false));
        assert!(all <= 30_000, "{all} bytes");
        assert!(trading <= 12_000, "{trading} bytes");
        assert!(listing(&["trading"], true) > trading);
    }
}
