//! SIGHUP reaches every gateway of a process: its test has a process of its own.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub, dead_code)] // the support of another test binary

#[path = "admin/support.rs"]
mod support;

use support::{from_a_file, strategy};

#[tokio::test]
async fn sighup_reads_the_file_again() {
    let (world, path, _folder) = from_a_file("").await;
    // Answered by the thread that listens for the signal, after it began to.
    assert_eq!(strategy(&world).await, "priority");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}defaults: {{ strategy: sticky }}\n")).unwrap();
    let own = std::process::id().to_string();
    let sent = std::process::Command::new("kill").args(["-HUP", &own]).status().unwrap();
    assert!(sent.success());
    world.until(async || strategy(&world).await == "sticky").await;
    let changes = world.get("/admin/v1/audit").await.json()["changes"].clone();
    assert_eq!(changes[0]["who"], "signal");
    assert_eq!(changes[0]["done"], true);
}
