// A worker in another language on a queue of ours: Node with npm's
// @azure/storage-queue. It needs nothing of this repository, only the message
// format (docs/patterns/message-format.md) and five rules:
//
//   1. a message is base64 of a CloudEvents object; plain JSON is accepted too
//   2. members that it does not know stay in the object (Q6)
//   3. what it has no handler for goes back after a while, counted in "snoozes"
//   4. a failed attempt goes back, counted in "failures", with "lasterror"; the
//      fifth one is put aside as poison by whichever worker of ours meets it
//   5. a message is deleted after its work is done, and not before (Q3)
//
//   AZURE_STORAGE_CONNECTION_STRING=… node worker.mjs <queue> [seconds to put back]
//
// It does not renew its lease, so its work has to end within the visibility.
import { QueueClient } from "@azure/storage-queue";

const handlers = {
  "cutroom.work.greet.v1": async ({ name }) => {
    if (!name) throw new Error("no name to greet");
    await sleep(50);
  },
};

const [queue, putBack = "30"] = process.argv.slice(2);
const client = new QueueClient(process.env.AZURE_STORAGE_CONNECTION_STRING, queue);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const decode = (text) => JSON.parse(text.trimStart().startsWith("{") ? text : Buffer.from(text, "base64").toString());
const encode = (item) => Buffer.from(JSON.stringify(item)).toString("base64");

// giveBack makes a message visible to others after so many seconds. An update
// writes the text, so it is sent again whether it has changed or not.
const giveBack = (message, text, seconds) => client.updateMessage(message.messageId, message.popReceipt, text, seconds);

async function work(message) {
  let item;
  try {
    item = decode(message.messageText);
  } catch {
    return giveBack(message, message.messageText, Number(putBack)); // a worker of ours puts it aside
  }
  const handler = handlers[item.type];
  if (!handler || !item.specversion?.startsWith("1.") || item.dataref) {
    item.snoozes = (item.snoozes ?? 0) + 1;
    await giveBack(message, encode(item), Number(putBack));
    return console.log("put back", item.id);
  }
  try {
    await handler(item.data ?? {});
  } catch (error) {
    item.failures = (item.failures ?? 0) + 1;
    item.lasterror = String(error).slice(0, 400);
    await giveBack(message, encode(item), 2 ** item.failures);
    return console.log("failed", item.id);
  }
  await client.deleteMessage(message.messageId, message.popReceipt);
  console.log("done", item.id);
}

let draining = false;
process.on("SIGTERM", () => (draining = true));
while (!draining) {
  const { receivedMessageItems } = await client.receiveMessages({ numberOfMessages: 1, visibilityTimeout: 30 });
  if (receivedMessageItems.length === 0) await sleep(100);
  for (const message of receivedMessageItems) {
    try {
      await work(message);
    } catch (error) {
      // A stale receipt (400 PopReceiptMismatch, 404 MessageNotFound): the message is
      // another consumer's by now (Q17). Anything else: it comes back by itself.
      console.error(message.messageId, error.code ?? error);
    }
  }
}
