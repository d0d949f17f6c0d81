//! AWS's own files: `~/.aws/credentials` and `~/.aws/config` (AWS SDKs and Tools Reference Guide, "Shared config and credentials
//! files").

use std::fs::File;
use std::io::Read;
use std::path::Path;

use secrecy::SecretString;

use super::AwsKey;

/// A file may be so large, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// The text of a file, if it is there and can be read.
pub(super) fn text_of(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// What a profile says in the text of a file.
#[derive(Default)]
pub(super) struct Profile {
    /// The file has it.
    pub(super) found: bool,
    /// Id, secret and token.
    pub(super) keys: [Option<String>; 3],
}

impl Profile {
    /// Reads the profile of this name. In the configuration its section is called `profile NAME`, except for the default's.
    pub(super) fn read(text: &str, name: &str) -> Self {
        let mut profile = Self::default();
        let mut inside = false;
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = line.strip_prefix('[') {
                let section = section.split(']').next().unwrap_or_default().trim();
                let bare = section.strip_prefix("profile").filter(|rest| rest.starts_with([' ', '\t']));
                inside = bare.unwrap_or(section).trim() == name;
                profile.found |= inside;
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| inside) else { continue };
            let place = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"]
                .into_iter()
                .position(|known| known == key.trim().to_ascii_lowercase());
            if let Some(slot) = place.and_then(|place| profile.keys.get_mut(place)) {
                *slot = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            }
        }
        profile
    }

    pub(super) fn has_key(&self) -> bool {
        matches!(&self.keys, [Some(_), Some(_), _])
    }

    /// Its credential, if it has a whole one.
    pub(super) fn key(self) -> Option<AwsKey> {
        let [id, secret, token] = self.keys;
        Some(AwsKey {
            access_key_id: id?,
            secret: SecretString::from(secret?),
            token: token.map(SecretString::from),
            expires_s: None,
        })
    }
}
