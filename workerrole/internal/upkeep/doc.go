// Package upkeep has the tests of the engine's upkeep with videos: with their plans, previews,
// clips and uploads.
package upkeep
