//! What is looked at on a machine: permissions, owners, modes, disk, clock, limits of the watcher.
