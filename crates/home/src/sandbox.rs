//! The files outside the home that its rules need, and those that later rules need but cannot
//! reach.

use std::path::PathBuf;

use super::core::Core;
use super::open::Home;
use super::parts::{News, Outside};
use spoolgate_host::sandbox::{self, Boxed, Keep, SandboxError};
use spoolgate_rules::Rulebook;
use spoolgate_rules::command::{CommandRule, Place};

/// Returns the programs that a rulebook names, each with the file that names it.
pub fn programs(book: &Rulebook) -> Vec<(String, &CommandRule)> {
    let roles = book
        .roles
        .roster
        .iter()
        .filter_map(|role| role.command.as_ref());
    let adapters = book
        .gateway
        .adapters
        .iter()
        .filter_map(|adapter| adapter.command.as_ref());
    let notify = book.notify.to.iter().map(|receiver| &receiver.command);
    let admission = book.admission.iter().flat_map(|(domain, policy)| {
        let commands = [
            &policy.profile.policy_command,
            &policy.profile.lineage_command,
        ];
        commands
            .into_iter()
            .flatten()
            .map(move |command| (format!("rules/admission/{domain}"), command))
    });
    let of = |file: &'static str| move |command| (file.to_owned(), command);
    roles
        .map(of("council/roles.yaml"))
        .chain(adapters.map(of("rules/gateway.yaml")))
        .chain(notify.map(of("rules/notify.yaml")))
        .chain(admission)
        .collect()
}

impl Home {
    /// Gives up access to the rest of the file system. The home, the programs named by the rules in
    /// force and by the present rule files, and `keep` stay reachable. No thread may have been
    /// started yet.
    ///
    /// # Errors
    /// Returns [`SandboxError`] if the sandbox cannot be entered.
    pub fn enter_sandbox(&mut self, mut keep: Keep, insist: bool) -> Result<&Boxed, SandboxError> {
        // The files may be newer than the rules in force; the first batch loads them.
        let present = self
            .core
            .rules
            .load()
            .and_then(|bundle| Rulebook::compile(&bundle))
            .ok();
        let books = [Some(&self.core.rulebook), present.as_ref()];
        for (_, command) in books.into_iter().flatten().flat_map(programs) {
            keep.named.extend(sandbox::files_of(
                &self.core.root,
                &command.program,
                &command.args,
            ));
            // A cage cannot open what the gate has given up.
            let real =
                |path: &Place| std::fs::canonicalize(self.core.root.join(path.as_str())).ok();
            keep.read.extend(command.read.iter().filter_map(real));
            keep.write.extend(command.write.iter().filter_map(real));
        }
        keep.named.extend(
            sandbox::links_out(&self.core.root)
                .into_iter()
                .map(|(_, to)| to),
        );
        // The gate runs itself to try requests over which it has died.
        keep.read
            .extend(std::env::current_exe().ok().filter(|path| path.exists()));
        let boxed = sandbox::enter(&self.core.root, &keep, insist)?;
        Ok(self.outside.sandbox.insert(boxed))
    }
}

impl Outside {
    /// Reports what the rules name now but the sandbox does not reach.
    pub(super) fn tell_out_of_reach(&mut self, core: &Core, news: &mut News) {
        let Some(boxed) = &self.sandbox else { return };
        let is_lost = |path: &PathBuf| !boxed.is_in_reach(path);
        let named = programs(&core.rulebook)
            .into_iter()
            .flat_map(|(file, command)| {
                let files = sandbox::files_of(&core.root, &command.program, &command.args);
                let paths = command.read.iter().chain(&command.write);
                let real = paths
                    .filter_map(|path| std::fs::canonicalize(core.root.join(path.as_str())).ok());
                let all: Vec<PathBuf> = files.into_iter().chain(real).collect();
                all.into_iter().map(move |path| (file.clone(), path))
            });
        let links = sandbox::links_out(&core.root).into_iter();
        let links = links.map(|(link, to)| (link.display().to_string(), to));
        let lost: Vec<String> = named
            .chain(links)
            .filter(|(_, path)| is_lost(path))
            .map(|(by, path)| {
                let folder = path.parent().unwrap_or(&path).display();
                format!(
                    "`{}`, which {by} names, is not accessible in the sandbox of this gate: \
                        restart the gate, or start it with --allow-read {folder}",
                    path.display()
                )
            })
            .collect();
        lost.into_iter().for_each(|text| news.tell(core, text));
    }
}
