//! Finds the active service on the allowlist that an action goes to.

use spoolgate_rules::rule::host;
use spoolgate_rules::services::{Service, Services};
use spoolgate_wire::gateway::{GatewayCall, Method, ServiceApiCall};
use spoolgate_wire::ids::ServiceName;

/// Why an action may go nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDestination {
    /// No active service takes the action.
    #[error("no active service of rules/services.yaml has `{0}` among its actions")]
    NoService(String),
    /// The call names a service that does not exist.
    #[error("rules/services.yaml has no such service")]
    Unknown,
    /// The service is not active.
    #[error("service `{0}` is not active")]
    Inactive(ServiceName),
    /// The service does not take the method of the call.
    #[error("service `{service}` may not be called with {}", method.as_str())]
    Method {
        /// The service.
        service: ServiceName,
        /// The method.
        method: Method,
    },
    /// The call names a host that two active services have.
    #[error(
        "services `{0}` and `{1}` have this host with different ports; name one of them in the \
        call"
    )]
    Ambiguous(ServiceName, ServiceName),
}

/// Returns the service that an action goes to.
///
/// # Errors
/// Returns [`NoDestination`] if the action may go nowhere.
pub fn destination<'a>(
    services: &'a Services,
    action: &str,
    call: &GatewayCall,
) -> Result<&'a Service, NoDestination> {
    match call {
        GatewayCall::Call(call) => of_call(services, call),
        _ => {
            let goes = |service: &&Service| {
                service.is_active && service.actions.iter().any(|name| name == action)
            };
            let found = services.services.iter().find(goes);
            found.ok_or_else(|| NoDestination::NoService(action.to_owned()))
        }
    }
}

fn of_call<'a>(
    services: &'a Services,
    call: &ServiceApiCall,
) -> Result<&'a Service, NoDestination> {
    let service = match services.named(&call.service) {
        Some(named) => named,
        None => at_host(services, &call.service)?,
    };
    if !service.is_active {
        return Err(NoDestination::Inactive(service.service.clone()));
    }
    if !service.methods.contains(&call.method) {
        return Err(NoDestination::Method {
            service: service.service.clone(),
            method: call.method,
        });
    }
    Ok(service)
}

/// Returns the service at a host, preferring an active one.
fn at_host<'a>(services: &'a Services, host: &str) -> Result<&'a Service, NoDestination> {
    let host = host::name_of(host);
    let there = || {
        services
            .services
            .iter()
            .filter(|service| Some(service.host.as_str()) == host.as_deref())
    };
    let mut active = there().filter(|service| service.is_active);
    match (active.next(), active.next()) {
        (Some(one), Some(other)) => Err(NoDestination::Ambiguous(
            one.service.clone(),
            other.service.clone(),
        )),
        (Some(one), None) => Ok(one),
        (None, _) => there().next().ok_or(NoDestination::Unknown),
    }
}
