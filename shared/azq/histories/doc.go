// Package histories has no code of its own: its tests drive the queue runtime through random
// histories on a model of the service, in virtual time. The model loses requests and replies,
// answers late, and has a clock of its own; workers die, operators pause and redrive, and
// handlers do all that handlers may. What must always hold is checked from outside.
//
// The other tests of the runtime use a real emulator. It has no such failures, an hour takes an
// hour there, and it is slow with thousands of messages: BenchmarkLeases serves the model over
// HTTP, in real time.
package histories
