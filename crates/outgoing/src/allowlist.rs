//! Finds the active service on the allowlist that an action goes to.

use spoolgate_rules::rule::host;
use spoolgate_rules::services::{Service, Services};
use spoolgate_wire::gateway::{GatewayCall, ServiceApiCall};

/// Returns the service that an action goes to.
///
/// # Errors
/// Returns a message if the action may go nowhere.
pub fn destination<'a>(
    services: &'a Services,
    action: &str,
    call: &GatewayCall,
) -> Result<&'a Service, String> {
    match call {
        GatewayCall::Call(call) => of_call(services, call),
        _ => {
            let goes = |service: &&Service| {
                service.is_active && service.actions.iter().any(|name| name == action)
            };
            let found = services.services.iter().find(goes);
            found.ok_or_else(|| {
                format!("no active service of rules/services.yaml has `{action}` among its actions")
            })
        }
    }
}

fn of_call<'a>(services: &'a Services, call: &ServiceApiCall) -> Result<&'a Service, String> {
    let service = match services.named(&call.service) {
        Some(named) => named,
        None => at_host(services, &call.service)?,
    };
    if !service.is_active {
        return Err(format!("service `{}` is not active", service.service));
    }
    if !service.methods.contains(&call.method) {
        return Err(format!(
            "service `{}` may not be called with {}",
            service.service,
            call.method.as_str()
        ));
    }
    Ok(service)
}

/// Returns the service at a host, preferring an active one.
fn at_host<'a>(services: &'a Services, host: &str) -> Result<&'a Service, String> {
    let host = host::name_of(host);
    let there = || {
        services
            .services
            .iter()
            .filter(|service| Some(service.host.as_str()) == host.as_deref())
    };
    let mut active = there().filter(|service| service.is_active);
    match (active.next(), active.next()) {
        (Some(one), Some(other)) => Err(format!(
            "services `{}` and `{}` have this host with other ports; a call names one of them",
            one.service, other.service
        )),
        (Some(one), None) => Ok(one),
        (None, _) => there()
            .next()
            .ok_or_else(|| "rules/services.yaml has no such service".to_owned()),
    }
}
