// Package kedascaler compares what this system says of its queues with what KEDA's own
// scalers say of the same Azurite. Its test has the
// build tag "deploy": scripts/test-keda builds the scalers and runs it, for `make test-deploy`.
//
// Three things can be compared (Q4, Q18). KEDA's azure-queue scaler counts a queue with
// hidden messages or without; GET /ops/scale tells both. KEDA's metrics-api scaler reads
// that route with the trigger that the chart prints, and must hand over the number of
// workers wanted. Beyond 32 visible messages of a lane they cannot be told from hidden
// ones by asking the queue, and KEDA counts all as visible; only the sum is compared then.
package kedascaler
