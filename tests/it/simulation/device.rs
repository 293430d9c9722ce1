//! The simulated disk as the gate calls it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use spoolgate_ledger::disk::{
    Access, DirStream, Disk, Entry, FileId, Kind, LogFile, Mode, ReadFile, Stat,
};

use super::disk::{EEXIST, EIO, Inode, Lie, Medium, NameOp, SimDisk, World, error};

fn stat_of(number: u64, inode: &Inode) -> Stat {
    Stat {
        kind: if inode.directory {
            Kind::Directory
        } else {
            Kind::File
        },
        id: FileId {
            device: 1,
            inode: number,
        },
        uid: 0,
        links: 1,
        size: inode.seen.len() as u64,
        modified_ns: inode.modified,
        changed_ns: inode.modified,
    }
}

impl Disk for SimDisk {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        let mut world = self.world();
        world.reads("read_dir", dir)?;
        if !dir.as_os_str().is_empty() {
            world.inode_of(dir)?;
        }
        let mut entries: Vec<(OsString, Kind)> = Vec::new();
        for (path, number) in world.names.range(dir.to_owned()..) {
            if !path.starts_with(dir) {
                break;
            }
            if path.parent() == Some(dir) && path != dir {
                let kind = if world.inode(*number).directory {
                    Kind::Directory
                } else {
                    Kind::File
                };
                entries.push((path.file_name().unwrap().to_owned(), kind));
            }
        }
        // The order of entries is random, because no caller may rely on it.
        let turn = if entries.is_empty() {
            0
        } else {
            world.dice.up_to(entries.len() - 1)
        };
        entries.rotate_left(turn);
        Ok(Box::new(entries.into_iter().map(|(name, kind)| {
            Ok(Entry {
                name,
                kind: Some(kind),
            })
        })))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let mut world = self.world();
        world.reads("stat", path)?;
        Ok(world
            .inode_of(path)
            .ok()
            .map(|number| stat_of(number, world.inode(number))))
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        let mut world = self.world();
        world.reads("read", path)?;
        let number = world.inode_of(path)?;
        let inode = world.inode(number);
        let end = inode.seen.len().min(limit.saturating_add(1));
        Ok(ReadFile {
            stat: stat_of(number, inode),
            bytes: inode.seen[..end].to_vec(),
        })
    }

    fn read_from_medium(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        {
            let mut world = self.world();
            if let Ok(number) = world.inode_of(path)
                && world.lie != Some(Lie::DropCache)
            {
                world.inode_mut(number).drop_cache(0);
            }
        }
        self.read(path, limit)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.world().changes_names("rename", from, |world| {
            let inode = world.inode_of(from)?;
            world.push(NameOp::Rename {
                from: from.to_owned(),
                to: to.to_owned(),
                inode,
            });
            Ok(())
        })
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.world().changes_names("rename_new", from, |world| {
            let inode = world.inode_of(from)?;
            if world.names.contains_key(to) {
                return Err(error(EEXIST));
            }
            world.push(NameOp::Rename {
                from: from.to_owned(),
                to: to.to_owned(),
                inode,
            });
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.world().changes_names("remove", path, |world| {
            let inode = world.inode_of(path)?;
            world.push(NameOp::Unlink {
                path: path.to_owned(),
                inode,
            });
            Ok(())
        })
    }

    fn write(&self, path: &Path, bytes: &[u8], _mode: Mode, durable: bool) -> io::Result<()> {
        let mut world = self.world();
        if let Ok(inode) = world.inode_of(path) {
            world.changes_names("unlink", path, |world| {
                world.push(NameOp::Unlink {
                    path: path.to_owned(),
                    inode,
                });
                Ok(())
            })?;
        }
        let mut number = 0;
        world.changes_names("create", path, |world| {
            if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
                world.inode_of(dir)?;
            }
            number = world.make(false);
            world.push(NameOp::Link {
                path: path.to_owned(),
                inode: number,
            });
            Ok(())
        })?;
        world.append("write", path, number, bytes)?;
        if durable {
            world.sync("fsync", path, number, Lie::SyncFile)
        } else {
            Ok(())
        }
    }

    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world();
        let dying = world.call("write_again", path)?;
        if world.fails() {
            return Err(error(EIO));
        }
        let number = world.inode_of(path)?;
        if world.lie == Some(Lie::WriteAgain) {
            return Ok(());
        }
        let ops = world.ops;
        let start = usize::try_from(offset).unwrap();
        let inode = world.inode_mut(number);
        inode.seen[start..start + bytes.len()].copy_from_slice(bytes);
        inode.dirty.push((start..start + bytes.len(), ops));
        if dying.is_some() {
            return Err(error(EIO));
        }
        world.sync("sync_again", path, number, Lie::SyncFile)
    }

    fn create_dir(&self, path: &Path, _mode: Mode) -> io::Result<()> {
        self.world().changes_names("mkdir", path, |world| {
            if world.names.contains_key(path) {
                return Ok(());
            }
            let inode = world.make(true);
            world.push(NameOp::Link {
                path: path.to_owned(),
                inode,
            });
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let journal = self.world().medium_kind == Medium::Journal;
        self.world().changes_names("sync_dir", dir, |world| {
            world.commit_names(|op| journal || op.is_in(dir));
            Ok(())
        })
    }

    fn sync_fs(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        let dying = world.call("sync_fs", dir)?;
        if world.fails() {
            // A page of some file could not be written.
            let dirty: Vec<u64> = world
                .inodes
                .iter()
                .filter(|(_, inode)| !inode.dirty.is_empty())
                .map(|(n, _)| *n)
                .collect();
            for number in dirty {
                if world.dice.one_in(2) {
                    world.inode_mut(number).dirty.clear();
                }
            }
            return Err(error(EIO));
        }
        if world.lie != Some(Lie::SyncFs) {
            world.inodes.values_mut().for_each(Inode::flush);
            world.commit_names(|_| true);
        }
        if dying.is_some() {
            Err(error(EIO))
        } else {
            Ok(())
        }
    }

    fn open_log(&self, path: &Path, _access: Access) -> io::Result<Box<dyn LogFile>> {
        let mut world = self.world();
        world.reads("open_log", path)?;
        let number = world.inode_of(path)?;
        Ok(Box::new(SimLog {
            world: Arc::clone(&self.world),
            number,
            path: path.to_owned(),
        }))
    }
}

struct SimLog {
    world: Arc<Mutex<World>>,
    number: u64,
    path: PathBuf,
}

impl LogFile for SimLog {
    fn len(&self) -> io::Result<u64> {
        let mut world = self.world.lock().unwrap();
        world.reads("len", &self.path)?;
        Ok(world.inode(self.number).seen.len() as u64)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.world
            .lock()
            .unwrap()
            .append("append", &self.path, self.number, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut world = self.world.lock().unwrap();
        world.reads("read_at", &self.path)?;
        let inode = world.inode(self.number);
        let from = usize::try_from(offset).unwrap().min(inode.seen.len());
        let length = buffer.len().min(inode.seen.len() - from);
        buffer[..length].copy_from_slice(&inode.seen[from..from + length]);
        Ok(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.world
            .lock()
            .unwrap()
            .sync("sync_data", &self.path, self.number, Lie::SyncData)
    }

    fn drop_cache(&self, from: u64) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        world.reads("drop_cache", &self.path)?;
        if world.lie != Some(Lie::DropCache) {
            world
                .inode_mut(self.number)
                .drop_cache(usize::try_from(from).unwrap());
        }
        Ok(())
    }
}
