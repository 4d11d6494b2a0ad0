// Package upkeep holds the duties that keep the whole in order. One elected
// worker does them at a time:
//
//   - the reconciler sends what an outbox still promises and finds steps whose
//     message was lost;
//   - the janitor removes blobs that no row names.
//
// Both only repeat what steps do anyway, so two leaders at once, which a frozen
// process can cause, do no harm.
package upkeep
