// The JavaScript SDK of A2A 1.x as a client: does what every client here does, and prints what it saw as JSON.
import { readFileSync } from "node:fs";
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { AgentCard, SendMessageRequest, TaskState, verifyAgentCardSignature } from "@a2a-js/sdk";

const [url, token, transport, hook, keySet] = process.argv.slice(2);
console.debug = () => {};
const fetchImpl = (address, init) =>
  fetch(address, { ...init, headers: { ...init?.headers, Authorization: `Bearer ${token}` } });
const Factory = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory }[transport];

const served = await (await fetchImpl(`${url}/.well-known/agent-card.json`)).json();
const known = new Map(JSON.parse(readFileSync(keySet, "utf8")).keys.map((key) => [key.kid, key]));
const verify = verifyAgentCardSignature(async (kid) => known.get(kid));
await verify(served);
const verified = await verify({ ...served, name: "somebody else" }).then(() => false, () => true);

const create = (polling) =>
  new ClientFactory({ transports: [new Factory({ fetchImpl })], clientConfig: { polling } }).createFromAgentCard(
    AgentCard.fromJSON(served),
  );
const client = await create(false);
const message = (text, taskId) =>
  SendMessageRequest.fromJSON({
    message: { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text }], taskId },
  });
const state = (status) => TaskState[status.state].replace("TASK_STATE_", "").toLowerCase();
const text = (task) => task.artifacts[0].parts[0].content.value;
const refused = async (call) => call.then(() => "nothing", (error) => error.constructor.name);

const task = await client.sendMessage(message("hello"));
const states = [];
let streamed = "";
for await (const { payload } of client.sendMessageStream(message("hello again"))) {
  if (payload.$case === "statusUpdate") states.push(state(payload.value.status));
  if (payload.$case === "artifactUpdate") streamed = payload.value.artifact.parts[0].content.value;
}
const got = await client.getTask({ tenant: "", id: task.id });
const running = await (await create(true)).sendMessage(message("hang"));
const cancelled = await client.cancelTask({ tenant: "", id: running.id });
const asked = await client.sendMessage(message("ask Sure?"));
const answered = await client.sendMessage(message("yes", asked.id));
const slow = await (await create(true)).sendMessage(message("wait 1"));
const config = { tenant: "", id: "", taskId: slow.id, url: hook, token: "sesame", authentication: undefined };
const registered = await client.createTaskPushNotificationConfig(config);
const found = await client.getTaskPushNotificationConfig({ tenant: "", id: registered.id, taskId: slow.id });
const listed = await client.listTasks({ tenant: "", contextId: task.contextId, pageToken: "" });
console.log(
  JSON.stringify({
    card: served.name,
    verified,
    sent: [state(task.status), text(task)],
    streamed: [states[0], states.at(-1), streamed],
    got: [state(got.status), text(got)],
    cancelled: state(cancelled.status),
    listed: listed.tasks.map((each) => each.id === task.id),
    asked: [state(asked.status), asked.status.message.parts[0].content.value, state(answered.status), text(answered)],
    registered: found.url === hook,
    unknown: await refused(client.getTask({ tenant: "", id: "nobody" })),
    ended: await refused(client.cancelTask({ tenant: "", id: task.id })),
  }),
);
