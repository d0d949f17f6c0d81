// A TCP relay between the SDK and the gateway that counts connections and requests and keeps what the gateway sent.
//
// SDKs retry by themselves, below their own interface: only the wire tells how many requests they made. The relay
// changes one thing, the `Host` header, as any reverse proxy does, so that the gateway sees its own name.

import { once } from "node:events";
import net from "node:net";

import { HOST } from "./processes.js";

/** Bytes of answers that are kept; tests send far less. */
const KEPT = 4 * 1024 * 1024;

export class Relay {
  /** Connections that clients opened. */
  connections = 0;
  /** The request lines seen so far, such as `POST /v1/chat/completions HTTP/1.1`. */
  requests = [];

  #gatewayPort;
  #server;
  #sockets = new Set();
  #answers = [];
  #kept = 0;

  static async to(gatewayPort) {
    const relay = new Relay();
    relay.#gatewayPort = gatewayPort;
    relay.#server = net.createServer({ noDelay: true }, (client) => relay.#connect(client));
    relay.#server.listen(0, HOST);
    await once(relay.#server, "listening");
    return relay;
  }

  get port() {
    return this.#server.address().port;
  }

  /** Everything that the gateway sent, heads and HTTP chunk sizes included. */
  get answers() {
    return Buffer.concat(this.#answers).toString("utf8");
  }

  async close() {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #connect(client) {
    this.connections += 1;
    const gateway = net.connect({ port: this.#gatewayPort, host: HOST, noDelay: true });
    for (const [socket, other] of [[client, gateway], [gateway, client]]) {
      this.#sockets.add(socket);
      // Whichever side goes, the other learns it at once, as it would without the relay; `close` follows an error.
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroySoon();
      });
    }
    client.on("end", () => gateway.destroy());
    const heads = new Heads((line) => this.requests.push(line), `${HOST}:${this.#gatewayPort}`);
    client.on("data", (bytes) => {
      for (const part of heads.read(bytes)) gateway.write(part);
    });
    gateway.on("data", (bytes) => {
      if (this.#kept + bytes.length <= KEPT) {
        this.#kept += bytes.length;
        this.#answers.push(bytes);
      }
    });
    gateway.pipe(client);
  }
}

/** Reads requests head by head and writes their `Host` anew; bodies have a length, as the SDKs always send them. */
class Heads {
  #seen;
  #host;
  #pending = Buffer.alloc(0);
  #missing = 0;

  constructor(seen, host) {
    this.#seen = seen;
    this.#host = host;
  }

  /** What goes on to the gateway of these bytes and those before. */
  *read(bytes) {
    this.#pending = Buffer.concat([this.#pending, bytes]);
    while (this.#pending.length > 0) {
      if (this.#missing > 0) {
        const body = this.#take(Math.min(this.#missing, this.#pending.length));
        this.#missing -= body.length;
        yield body;
        continue;
      }
      const end = this.#pending.indexOf("\r\n\r\n");
      if (end < 0) return;
      const head = this.#take(end + 4).toString("latin1");
      if (/^transfer-encoding:/im.test(head)) throw new Error("the relay reads bodies with a length only");
      this.#seen(head.slice(0, head.indexOf("\r\n")));
      this.#missing = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
      yield Buffer.from(head.replace(/^host:[^\r]*/im, `host: ${this.#host}`), "latin1");
    }
  }

  #take(length) {
    const taken = this.#pending.subarray(0, length);
    this.#pending = this.#pending.subarray(length);
    return taken;
  }
}
