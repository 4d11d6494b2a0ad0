// Package e2e holds the checks of the repository as a whole: which package may
// import which, and whether the documentation tells the truth. The tests that
// run the built roles are in the packages below it; all of them start the
// system through package stack.
//
// Next: e2e/stack, how Azurite and the roles are started.
package e2e

//go:generate go run ./cmd/handbook
