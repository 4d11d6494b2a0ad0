// Package foreign shows that the queues and the queue runtime are not ours alone: a
// worker in another language shares a queue with ours (worker.mjs), and a program of
// another module takes the runtime along (docs/take-the-runtime.md).
package foreign
