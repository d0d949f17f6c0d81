//! What processes cost, read from `/proc`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Thousands of streams need thousands of descriptors, here and in the children.
pub(crate) fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        eprintln!("file descriptors stay as few as they are: {error}");
    }
}

/// A process and its children.
pub(crate) fn family(parent: u32) -> Result<Vec<u32>> {
    let mut members = vec![parent];
    for entry in fs::read_dir("/proc").context("the processes cannot be listed")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the name, which may hold anything, come state and parent.
        let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        if after.split(' ').nth(1).and_then(|ppid| ppid.parse().ok()) == Some(parent) {
            members.push(pid);
        }
    }
    Ok(members)
}

/// Time on a processor of all threads of these processes, in microseconds.
pub(crate) fn cpu_us(members: &[u32]) -> Result<f64> {
    let mut sum = 0.0;
    for pid in members {
        for task in fs::read_dir(format!("/proc/{pid}/task")).context("a process is gone")?.flatten() {
            sum += on_processor_ns(&task.path())? / 1e3;
        }
    }
    Ok(sum)
}

fn on_processor_ns(task: &Path) -> Result<f64> {
    let text = fs::read_to_string(task.join("schedstat")).context("no schedstat: a kernel without it?")?;
    Ok(text.split(' ').next().context("an empty schedstat")?.parse()?)
}

/// Resident memory of these processes, in bytes. What they share is counted once for each.
pub(crate) fn resident(members: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for pid in members {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).context("a process is gone")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        sum += kib * 1024;
    }
    Ok(sum)
}
