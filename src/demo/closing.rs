//! After the tour: what to try by hand.

use super::stage::Stage;
use super::world::{LARGE, ROUTE, World};
use crate::failure::Failure;

/// Lines that work while the demo serves.
pub(crate) fn how_to_go_on(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    stage.head("It serves on. Try it (Ctrl-C ends it):")?;
    let (base, admin) = (world.base_url(), world.admin_url());
    let north = world.north.addr();
    for line in curl(&base, &admin, &north.to_string()).lines().chain(python(&base).lines()) {
        stage.verbatim(line)?;
    }
    Ok(())
}

fn curl(base: &str, admin: &str, north: &str) -> String {
    format!(
        r#"
# A stream, with the gateway's headers
curl -iN {base}/chat/completions -H 'content-type: application/json' \
  -d '{{"model": "{ROUTE}", "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'

# Break north (any of: curl http://{north}/_sim/scripts), ask again, then heal it
curl -X PUT http://{north}/_sim/script -d 'status:503'
curl -X POST http://{north}/_sim/reset

# What the gateway knows, why it did what it did, and what it would do
curl {admin}/admin/v1/targets
curl {admin}/admin/v1/requests
curl {admin}/admin/v1/explain -H 'content-type: application/json' \
  -d '{{"model": "{ROUTE}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
curl {admin}/metrics
"#
    )
}

fn python(base: &str) -> String {
    format!(
        r#"
# Python, the official SDK (pip install openai)
from openai import OpenAI
client = OpenAI(base_url="{base}", api_key="any")
print(client.chat.completions.create(model="{LARGE}", messages=[{{"role": "user", "content": "Hello"}}]))
"#
    )
}
