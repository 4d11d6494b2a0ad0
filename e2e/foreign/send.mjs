// Sends a greeting for each name to a queue of ours, with npm's library alone.
//   AZURE_STORAGE_CONNECTION_STRING=… node send.mjs <queue> Ada Grace
import { QueueClient } from "@azure/storage-queue";

const [name, ...people] = process.argv.slice(2);
const queue = new QueueClient(process.env.AZURE_STORAGE_CONNECTION_STRING, name);
for (const person of people) {
  const item = { specversion: "1.0", type: "azq.work.greet.v1", id: `greet.${person}`, data: { name: person } };
  const text = Buffer.from(JSON.stringify(item)).toString("base64");
  await queue.sendMessage(text, { messageTimeToLive: -1 });
}
