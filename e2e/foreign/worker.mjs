// A worker in another language on a queue of ours: Node with the storage libraries of npm. It
// needs nothing of this repository, only the format of messages (shared/azq/FORMAT.md) and the
// rules of a good worker (shared/azq/WORKER.md), whose names stand in brackets where it keeps them.
//
//   AZURE_STORAGE_CONNECTION_STRING=… AZQ_QUEUE=… node worker.mjs
import { setTimeout as sleep } from "node:timers/promises";
import { QueueClient } from "@azure/storage-queue";
import { TableClient } from "@azure/data-tables";

const handlers = {
  "greet.v1": async ({ name, seconds = 0.05, stuck }, signal, moved) => {
    if (!name) throw new Error("no name to greet");
    if (stuck) await sleep(2 ** 30, null, { signal });
    for (let left = seconds * 1000; left > 0; left -= 500) {
      await sleep(Math.min(left, 500), null, { signal }); // ends early when the work has to
      moved();
    }
  },
};

const { AZURE_STORAGE_CONNECTION_STRING: account, AZQ_PREFIX: prefix = "", AZQ_QUEUE: name } = process.env;
const { AZQ_VISIBILITY = 30, AZQ_PAUSE = 30, AZQ_MAX_FAILURES = 5, AZQ_STALL = 60 } = process.env;
const [visibility, pause, maxFailures, stall] = [AZQ_VISIBILITY, AZQ_PAUSE, AZQ_MAX_FAILURES, AZQ_STALL].map(Number);
const queue = new QueueClient(account, prefix + name);
const poisonQueue = new QueueClient(account, `${prefix}${name}-poison`);
const poisonRows = TableClient.fromConnectionString(account, `${prefix}poison`, { allowInsecureConnection: true });

// members cuts a JSON object into its members, `"name":value`, without touching them.
function members(json) {
  const parts = [];
  let [depth, from] = [0, 0];
  for (const { 0: token, index } of json.matchAll(/"(?:\\.|[^"\\])*"|[[\]{},]/g)) {
    if ("[{".includes(token)) depth++;
    if ("]}".includes(token)) depth--;
    if (from === 0) from = index + 1;
    else if (depth === 0 || (depth === 1 && token === ",")) {
      parts.push(json.slice(from, index));
      from = index + 1;
    }
  }
  return parts;
}

// read returns the item of a text (reads), or throws what makes it malformed (malformed).
function read(text) {
  const plain = text.trim().startsWith("{"); // trim takes a byte order mark, too
  const json = (plain ? text : Buffer.from(text, "base64").toString()).trim();
  const item = JSON.parse(json);
  if (members(json).length !== Object.keys(item).length) throw new Error("a member is there twice");
  const major = Number.parseInt(item.specversion, 10);
  if (!(major >= 1)) throw new Error(`specversion ${item.specversion}`);
  if (major > 1) return { newer: true };
  const [, kind] = /^[a-z][a-z0-9-]*\.work\.([a-z][a-z0-9-]*\.v[1-9][0-9]*)$/.exec(item.type) ?? [];
  if (!kind) throw new Error(`type ${item.type}`);
  if (typeof item.id !== "string" || item.id === "") throw new Error("no id");
  for (const counter of ["failures", "releases", "kills", "snoozes", "starts"]) {
    item[counter] ??= 0;
    if (!Number.isInteger(item[counter]) || item[counter] < 0) throw new Error(`${counter} is ${item[counter]}`);
  }
  return { item, json, plain, handler: item.dataref ? undefined : handlers[kind] };
}

// write returns the text of an item with some members changed, and the others as they came (keeps).
function write({ json, plain }, changes) {
  const changed = Object.entries(changes).map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
  const kept = members(json).filter((member) => !(Object.keys(JSON.parse(`{${member}}`))[0] in changes));
  const text = `{${[...kept, ...changed].join(",")}}`;
  return plain ? text : Buffer.from(text).toString("base64");
}

// update hides a message for so many seconds. It carries the text, which it would erase
// otherwise, and returns another receipt: the one before is refused from then on.
async function update(message, seconds, text = message.messageText) {
  const until = Date.now() + seconds * 1000;
  const { popReceipt } = await queue.updateMessage(message.messageId, message.popReceipt, text, seconds);
  Object.assign(message, { popReceipt, messageText: text, until });
}

// A stale receipt: the message is another worker's by now, or gone (stale). After a request that
// the library has repeated that is no harm either: the first one had arrived (replies).
const isStale = ({ code }) => ["PopReceiptMismatch", "MessageNotFound", "QueueNotFound"].includes(code);

const stalled = new Error("the work makes no progress");

// renew keeps a message hidden until its work has ended. If it cannot, it ends the work (lease),
// and also when the work stands still (moves).
async function renew(message, work, still) {
  for (;;) {
    await sleep((visibility * 1000) / 3, null, { signal: work.signal }).catch(() => {});
    if (still() > stall * 1000) work.abort(stalled);
    if (work.signal.aborted) return;
    await update(message, visibility).catch((error) => {
      if (isStale(error) || message.until - Date.now() < visibility * 350) work.abort(error); // no time for another
    });
  }
}

// putAside makes a message poison. After a crash the next delivery repeats it (poison).
async function putAside(message, reason, item, text = message.messageText) {
  const key = { partitionKey: name, rowKey: message.messageId };
  const before = await poisonRows.getEntity(name, message.messageId).catch((error) => {
    if (error.statusCode !== 404) throw error;
  });
  await poisonRows.upsertEntity({
    ...key, Reason: reason, Text: Buffer.from(text), Inserted: message.insertedOn, PoisonedAt: new Date(),
    ...(item && { ItemId: item.id, Subject: item.subject, Failures: item.failures }),
    DequeueCount: { type: "Int64", value: String(message.dequeueCount) },
  });
  if (!before?.CopyMessageId) {
    const copy = await poisonQueue.sendMessage(text, { messageTimeToLive: -1 });
    await poisonRows.updateEntity({ ...key, CopyMessageId: copy.messageId, CopyReceipt: copy.popReceipt });
  }
  await queue.deleteMessage(message.messageId, message.popReceipt);
  console.log("poison", item?.id ?? message.messageId);
}

let draining = false;
let work; // in hand: to end it, abort it with a reason

async function handle(message) {
  let got;
  try {
    got = read(message.messageText);
  } catch (error) {
    return putAside(message, `malformed: ${error.message}`);
  }
  const { item, handler } = got;
  if (got.newer) return update(message, pause); // what its members mean is not known here (back)
  if (!handler) {
    await update(message, pause, write(got, { snoozes: item.snoozes + 1 }));
    return console.log("put back", item.id);
  }
  if (item.failures >= maxFailures) return putAside(message, item.lasterror ?? "all attempts failed", item);
  // Many deliveries without a word: perhaps the item kills its workers, so this attempt is noted (crashes).
  const note = message.dequeueCount - 1 - item.failures - item.releases - item.snoozes >= 10;
  if (note && item.starts >= 10) return putAside(message, "crash loop", item);
  if (note) await update(message, visibility, write(got, { starts: item.starts + 1 }));
  return settle(message, got, await attempt(message, handler, item.data ?? {}));
}

// attempt calls the handler while the message is renewed. It returns why the handler failed, and
// why it was ended, if it was.
async function attempt(message, handler, data) {
  const mine = (work = new AbortController());
  if (draining) work.abort("draining");
  let last = Date.now(); // of progress
  const renewals = renew(message, mine, () => Date.now() - last);
  const moved = () => (last = Date.now());
  const failure = await handler(data, mine.signal, moved).then(() => undefined, (error) => error);
  const ended = mine.signal.reason;
  mine.abort();
  await renewals; // the receipt is the newest
  return { failure, ended };
}

// settle ends the delivery by how the attempt went.
async function settle(message, got, { failure, ended }) {
  const { item } = got;
  if (failure === undefined) {
    await queue.deleteMessage(message.messageId, message.popReceipt); // (done)
    return console.log("done", item.id);
  }
  if (ended && ended !== stalled) {
    if (isStale(ended)) throw ended;
    await update(message, 0, write(got, { starts: item.starts, releases: item.releases + 1 })); // no failure (drain)
    return console.log("given back", item.id);
  }
  const failures = item.failures + 1; // (failures)
  const reason = String(ended ?? failure);
  const text = write(got, { starts: item.starts, failures, lasterror: reason.slice(0, 400) });
  if (failures >= maxFailures) return putAside(message, reason, { ...item, failures }, text);
  await update(message, Math.min(2 ** failures, pause), text);
  console.log("failed", item.id);
}

process.on("SIGTERM", () => {
  draining = true;
  work?.abort("draining");
});

// isPaused reads the queue's metadata now and then: an operator has paused the queue (paused).
let [paused, looked] = [false, 0];
async function isPaused() {
  if (Date.now() - looked > Math.min(pause, 15) * 1000) {
    const { metadata } = await queue.getProperties();
    [paused, looked] = [metadata?.paused === "true", Date.now()];
  }
  return paused;
}

async function receive() {
  if (await isPaused()) return undefined;
  const until = Date.now() + visibility * 1000; // counted from before the request
  const [message] = (await queue.receiveMessages({ visibilityTimeout: visibility })).receivedMessageItems;
  if (!message) return undefined;
  const messageText = message.messageText.replaceAll("&#xD;\n", "\r\n"); // npm's library leaves it as it is in XML
  return { ...message, messageText, until };
}

for (let idle = 100; !draining; ) {
  const message = await receive().catch((error) => console.error("receive", error.code ?? error));
  idle = message ? 100 : Math.min(idle * 1.5, 1000);
  if (message) await handle(message).catch((error) => console.error(message.messageId, error.code ?? error)); // it comes again
  else if (!draining) await sleep(idle);
}
