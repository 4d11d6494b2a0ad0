// Package foreign shows that the queues and the queue runtime are not ours alone: a
// worker in another language shares a queue with ours (worker.mjs), programs in other
// languages send work to it (send.mjs, send.py), and a program of another module uses the
// libraries (shared/azq/README.md).
package foreign
