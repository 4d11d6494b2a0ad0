// Package workflow declares what the work on a video is. Every step is one value
// of [Steps]: on which queue it travels, when it is due, how many times it runs,
// whether its failure is the video's, how the timeline and the progress show it.
// Both roles read the declaration. No other package names a step but the file that
// implements it.
//
// To add a step: a value in [Steps], and a file in workerrole/internal/step that
// is listed in All there. TestDeclaration, and the worker at its start, say what is missing.
//
// Next: shared/engine, which keeps the rows of the steps and runs them.
package workflow
