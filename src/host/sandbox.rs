//! The sandbox: after its start the watcher gives up the rest of the file system (Landlock).
