//! What a home needs of the file system besides itself, by its rules; and what rules that come later lack.

use std::path::PathBuf;

use super::open::Home;
use crate::host::sandbox::{self, Boxed, Keep, SandboxError};
use crate::rules::Rulebook;
use crate::rules::command::CommandRule;

/// Programs that a rulebook names, each with the file that names it.
pub fn programs(book: &Rulebook) -> Vec<(String, &CommandRule)> {
    let roles = book.roles.roster.iter().filter_map(|role| role.command.as_ref());
    let adapters = book.gateway.adapters.iter().filter_map(|adapter| adapter.command.as_ref());
    let notify = book.notify.iter().map(|notify| &notify.command);
    let admission = book.admission.iter().flat_map(|(domain, policy)| {
        let commands = [&policy.profile.policy_command, &policy.profile.lineage_command];
        commands.into_iter().flatten().map(move |command| (format!("rules/admission/{domain}"), command))
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
    /// Gives up the rest of the file system: what the home, its programs by the rules in force and by the files as they
    /// are now, and `keep` need stays. No thread may have been started.
    ///
    /// # Errors
    /// [`SandboxError`].
    pub fn enter_sandbox(&mut self, mut keep: Keep, insist: bool) -> Result<&Boxed, SandboxError> {
        // The files can be newer than what is in force: the first batch takes them.
        let present = self.rules.load().and_then(|bundle| Rulebook::compile(&bundle)).ok();
        let books = [Some(&self.rulebook), present.as_ref()];
        for (_, command) in books.into_iter().flatten().flat_map(programs) {
            keep.named.extend(sandbox::files_of(&self.root, &command.program, &command.args));
        }
        keep.named.extend(sandbox::links_out(&self.root).into_iter().map(|(_, to)| to));
        let boxed = sandbox::enter(&self.root, &keep, insist)?;
        Ok(self.sandbox.insert(boxed))
    }

    /// Tells of what the rules name now and the sandbox does not reach.
    pub(super) fn tell_out_of_reach(&mut self) {
        let Some(boxed) = &self.sandbox else { return };
        let is_lost = |path: &PathBuf| !boxed.is_in_reach(path);
        let named = programs(&self.rulebook).into_iter().flat_map(|(file, command)| {
            let files = sandbox::files_of(&self.root, &command.program, &command.args);
            files.into_iter().map(move |path| (file.clone(), path))
        });
        let links = sandbox::links_out(&self.root).into_iter();
        let links = links.map(|(link, to)| (link.display().to_string(), to));
        let lost: Vec<String> = named
            .chain(links)
            .filter(|(_, path)| is_lost(path))
            .map(|(by, path)| {
                let folder = path.parent().unwrap_or(&path).display();
                format!(
                    "`{}`, which {by} names, is out of reach of the sandbox that this gate started with: start it \
                     again, or with --allow-read {folder}",
                    path.display()
                )
            })
            .collect();
        lost.into_iter().for_each(|text| self.tell(text));
    }
}
