// Package upkeep holds the duties that repair what crashes leave. One elected worker
// does them at a time:
//
//   - the reconciler sends what an outbox still promises and what was lost;
//   - the janitor removes blobs that no row names.
//
// A frozen process can cause two leaders at once. That does no harm, because both duties
// only do what is safe to repeat.
package upkeep
