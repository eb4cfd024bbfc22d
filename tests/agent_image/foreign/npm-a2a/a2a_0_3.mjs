// The JavaScript SDK of A2A 0.3 as a client: does what every client here does, and prints what it saw as JSON.
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "a2a-js-sdk-0.3/client";

const [url, token, transport, hook] = process.argv.slice(2);
const fetchImpl = (address, init) =>
  fetch(address, { ...init, headers: { ...init?.headers, Authorization: `Bearer ${token}` } });
const Factory = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory }[transport];
const client = await new ClientFactory({
  transports: [new Factory({ fetchImpl })],
  preferredTransports: [transport],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
}).createFromUrl(url);

const message = (text, configuration, taskId) => ({
  message: { kind: "message", messageId: crypto.randomUUID(), role: "user", parts: [{ kind: "text", text }], taskId },
  configuration,
});
const text = (task) => task.artifacts[0].parts[0].text;
const refused = async (call) => call.then(() => "nothing", (error) => error.constructor.name);

const task = await client.sendMessage(message("hello", { blocking: true }));
const states = [];
let streamed = "";
let finals = 0;
for await (const event of client.sendMessageStream(message("hello again"))) {
  if (event.kind === "status-update") states.push(event.status.state);
  if (event.kind === "artifact-update") streamed = event.artifact.parts[0].text;
  if (event.final) finals += 1;
}
const got = await client.getTask({ id: task.id });
const running = await client.sendMessage(message("hang", { blocking: false }));
const cancelled = await client.cancelTask({ id: running.id });
const asked = await client.sendMessage(message("ask Sure?", { blocking: true }));
const answered = await client.sendMessage(message("yes", { blocking: true }, asked.id));
const slow = await client.sendMessage(message("wait 1", { blocking: false }));
const pushNotificationConfig = { id: "mine", url: hook, token: "sesame" };
await client.setTaskPushNotificationConfig({ taskId: slow.id, pushNotificationConfig });
const found = await client.getTaskPushNotificationConfig({ id: slow.id, pushNotificationConfigId: "mine" });
console.log(
  JSON.stringify({
    card: (await client.getAgentCard()).name,
    sent: [task.status.state, text(task)],
    streamed: [states[0], states.at(-1), streamed],
    finals,
    got: [got.status.state, text(got)],
    cancelled: cancelled.status.state,
    asked: [asked.status.state, asked.status.message.parts[0].text, answered.status.state, text(answered)],
    registered: found.pushNotificationConfig.url === hook,
    unknown: await refused(client.getTask({ id: "nobody" })),
    ended: await refused(client.cancelTask({ id: task.id })),
  }),
);
