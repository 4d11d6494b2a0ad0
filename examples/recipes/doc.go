// Package recipes is the code that docs/recipes quotes: a file for each recipe. Its examples
// and tests run on an emulator.
package recipes
